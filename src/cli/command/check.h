#pragma once
/* cli/command/check.h - the checks that `serve` and `worker` make of their settings at the start, for
 * `check-config`. */
#include "base/option/option.h"

/* A check of one group of values by themselves: addresses, URLs, lists, roles. Opens nothing, but reads the files that
 * values name. NULL ends the lists. */
typedef enum err value_check(const struct options *o, struct error *e);
extern value_check *const serve_value_checks[], *const worker_value_checks[];

/* Whether the values go together. Flags and variables, which check-config does not see, may still complete them. */
enum err serve_check_together(const struct options *o, struct error *e) must_use;
