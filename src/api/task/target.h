#pragma once
/* api/task/target.h - checks a target when a task is created, so that its author learns of a mistake at once. The
 * runner checks again when it calls the target. Any thread. */
#include "api/task/json.h"

enum { TIMEOUT_MAX_MS = 3600000 };

/* Errors name paths below the config ("headers.Host"). *ret_timeout_ms is set if the config has a timeout. */
enum err target_check(enum target_kind kind, json_t *config, struct arena *a, int64_t *ret_timeout_ms,
                      struct error *e) must_use;

/* The short form: a payload {"webhook_url", "method", "body"} → the config of an HTTP_CALLBACK. text is the JSON text
 * of the payload. */
bool target_is_short(json_t *payload);
enum err target_from_short(json_t *payload, struct str text, struct arena *a, struct str *ret,
                           struct error *e) must_use;
/* As other schedulers write it: "webhook_url" and "method" stand among the data. *ret_rest is the data without them, as
 * an object; empty: there is none. */
enum err target_from_mixed(json_t *payload, struct str text, struct arena *a, struct str *ret, struct str *ret_rest,
                           struct error *e) must_use;
