#pragma once
/* core/task/retry_rules.h - retry.rules: what a user says about certain failures, over the policy for all others.
 *
 *   [{"on": ["503", "5xx", "timeout"], "max_attempts": 3, "base_delay_ms": 5000, "max_delay_ms": 60000}]
 *
 * The first rule that names the failure counts. It makes a failure that would be final one that is tried again, as often
 * as it says; what it does not say stays as the policy has it. */
#include "core/task/settle.h"

/* Checks the text of retry.rules; errors name the path within it. */
enum err retry_rules_check(struct str rules, struct error *e) must_use;

/* The policy for this outcome; *ret_named tells whether a rule named it. */
struct retry_policy retry_policy_for(const struct retry_policy *p, const struct outcome *o, bool *ret_named);
