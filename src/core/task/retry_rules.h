#pragma once
/* core/task/retry_rules.h - retry.rules: a user's rules for certain failures, which override the retry policy.
 *
 *   [{"on": ["503", "5xx", "timeout"], "max_attempts": 3, "base_delay_ms": 5000, "max_delay_ms": 60000}]
 *
 * The first rule that names the failure applies. It makes a failure that would be final retryable, up to its
 * max_attempts. Members that a rule omits have the policy's values. */
#include "core/task/settle.h"

/* Checks the text of retry.rules. Errors name the path within it. */
enum err retry_rules_check(struct str rules, struct error *e) must_use;

/* Returns the policy for this outcome; *ret_named: whether a rule named it. */
struct retry_policy retry_policy_for(const struct retry_policy *p, const struct outcome *o, bool *ret_named);
