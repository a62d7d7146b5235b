#pragma once
/* api/task/secret_headers.h - headers of a target whose values are secrets: Authorization, Cookie, and names with
 * token, secret, key or password. They are write-only: answers have *** instead, and an edit that sends *** back keeps
 * the value. With a key file they are encrypted before they are stored (port/secrets.h). Any thread. */
#include "base/arena.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "core/task/task.h"
#include "port/secrets.h"

/* Writes a target_config without the secrets. */
void secret_headers_hide(struct jw *w, struct str config);

/* With which keys, and for which row, secrets are encrypted. */
struct secret_sealer {
    const struct secrets *secrets; /* NULL: they are stored as they are */
    int32_t tenant;
    struct uuid row;
    bool keeps_hidden; /* a *** that stands for no known value stays */
    bool keeps_sealed; /* a value that is encrypted already stays, for the runner to judge */
};

/* Whether both configurations call the same scheme, host and port, or the same broker. */
bool secret_headers_same_host(const struct task *current, enum target_kind kind, struct str config);

/* Replaces each *** in the new configuration by the value that the task had, and encrypts the others. A value that the
 * task has already stays as it is stored. current: NULL for a new task. If the host or broker is another one, the
 * values must be given again: otherwise who may edit a task could send its secrets to himself. */
enum err secret_headers_keep(const struct task *current, enum target_kind kind, struct str config,
                             const struct secret_sealer *sealer, struct arena *a, struct str *ret,
                             struct error *e) must_use;

/* Encrypts the secrets of a configuration, which were encrypted for the row `from`, for another row. old: the
 * configuration that the row has; a value that it has already stays as it is stored there; empty: none does. */
enum err secret_headers_move(const struct secret_sealer *to, struct uuid from, struct str config, struct str old,
                             struct arena *a, struct str *ret, struct error *e) must_use;

/* The ids of the keys that the secrets of a configuration are encrypted with, one for each secret. */
struct json_cursor secret_headers_keys(struct str config);
bool secret_headers_next_key(struct json_cursor *c, struct str *ret_id);
