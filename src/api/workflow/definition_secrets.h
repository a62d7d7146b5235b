#pragma once
/* api/workflow/definition_secrets.h - secret headers of steps in definitions of workflows (api/task/secret_headers.h).
 * Answers have *** in place of their values, and a definition that sends *** back keeps them. All other bytes stay, so
 * a definition that comes back as it was shown is the same version. Any thread. */
#include "base/arena.h"
#include "base/json/jsonw.h"

/* Writes a definition without the secrets. */
void definition_secrets_hide(struct jw *w, struct str text);

/* Replaces each *** by the value that the step of the same name had in the latest version, if the step's target is
 * still at the same host or broker. ERR_INVALID, with the field: there is no such value, or the target is elsewhere. */
enum err definition_secrets_keep(struct str text, struct str latest, struct arena *a, struct str *ret,
                                 struct error *e) must_use;
