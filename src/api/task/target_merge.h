#pragma once
/* api/task/target_merge.h - what an edit makes of a target_config. Any thread. */
#include "base/json/json.h"

/* Merges the JSON object of an edit into the present one, as RFC 7396 does: a member that the edit does not have stays,
 * null removes it. Headers are merged by name, without regard to case. The body is a document of the user and is
 * replaced as a whole, like the payload of a task.
 * Secrets of the present headers are *** in the result: secret_headers_keep puts them back, unless the host is another
 * one. Values are kept as they were written. */
enum err target_merge(struct str current, struct str edit, struct arena *a, struct str *ret, struct error *e) must_use;

/* Of the config of a run: if the edit names another definition, leaves out the version and the hash of the present one.
 * Otherwise *ret stays as it is. */
enum err target_unbind(struct str current, json_t *edit, struct arena *a, struct str *ret, struct error *e) must_use;
