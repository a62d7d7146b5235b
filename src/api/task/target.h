#pragma once
/* api/task/target.h - is a target one that we would call? A light check when a task is made, so that its author hears of it;
 * the runner guards again when it calls. */
#include "api/task/json.h"

enum { TIMEOUT_MAX_MS = 3600000 };

/* Errors name paths below the config ("headers.Host"). *ret_timeout_ms is set if the config has a timeout. */
enum err target_check(enum target_kind kind, json_t *config, struct arena *a, int64_t *ret_timeout_ms,
                      struct error *e) must_use;

/* The short form: a payload {"webhook_url", "method", "body"} → the config of an HTTP_CALLBACK. text is the payload's own. */
bool target_is_short(json_t *payload);
enum err target_from_short(json_t *payload, struct str text, struct arena *a, struct str *ret,
                           struct error *e) must_use;
