#pragma once
/* cli/command/check.h - the checks that `serve` and `worker` make of their settings at the start, for
 * `check-config`. */
#include "base/option/option.h"

/* Each value by itself: addresses, URLs, lists, roles. Opens nothing, but reads the files that values name. */
enum err serve_check_values(const struct options *o, struct error *e) must_use;
enum err worker_check_values(const struct options *o, struct error *e) must_use;

/* Whether the values go together. Flags and variables, which check-config does not see, may still complete them. */
enum err serve_check_together(const struct options *o, struct error *e) must_use;
