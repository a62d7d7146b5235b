#pragma once
/* api/task/secret_headers.h - headers of a target whose values are secrets: Authorization, Cookie, and names with
 * token, secret, key or password. They are write-only: answers have *** instead, and an edit that sends *** back keeps
 * the value. Any thread. */
#include "base/arena.h"
#include "base/json/jsonw.h"
#include "core/task/task.h"

/* Writes a target_config without the secrets. */
void secret_headers_hide(struct jw *w, struct str config);

/* Replaces each *** in the new configuration by the value that the task had. current: NULL for a new task. If the host
 * or broker is another one, the values must be given again: otherwise who may edit a task could send its secrets to
 * himself. */
enum err secret_headers_keep(const struct task *current, enum target_kind kind, struct str config, struct arena *a,
                             struct str *ret, struct error *e) must_use;
