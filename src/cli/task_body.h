#pragma once
/* cli/task_body.h - the options of `add` and `edit` as the JSON body of a task: one table maps flags to fields. */
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "cli/cli.h"

enum { TASK_OPTION_COUNT = 48, TASK_EDIT_OPTION_COUNT = TASK_OPTION_COUNT - 6 }; /* an edit has only the first ones */
extern const struct option task_options[TASK_OPTION_COUNT];

enum { TASK_BODY_MAX = 16 << 20 };

/* The parts of a target that the options give. */
struct target {
    struct str url;        /* empty: not given */
    bool given;            /* any of url, method, headers, body */
    struct buf body;       /* JSON; empty: none */
    struct buf form;       /* JSON text with the bytes that curl -d sends; empty: body is an object, an array or none */
    size_t data_count;     /* how often -d was given */
    struct error not_json; /* why data that begins like an object or an array is none; code ERR_OK: there is none */
    bool as_curl; /* the target is a webhook: form takes the place of body. The command sets it before it writes */
};

/* url: the argument with the URL, or empty. Reads the body from --data, its file or stdin. */
enum err target_read(const struct options *o, struct str url, struct target *ret, struct error *e) must_use;
void target_release(struct target *t);

/* Only a webhook takes several -d. as_curl is set. */
enum err target_check_data(const struct target *t, struct error *e) must_use;

/* Writes a JSON object with the fields of all given options except the target and --set. At most one schedule may be
 * given. The command need not have all of task_options. */
enum err task_fields_write(const struct options *o, struct buf *ret, struct error *e) must_use;
void task_members_copy(struct str object, struct jw *w); /* its members, as written */

/* --set FIELD=JSON: changes the object in body. current: the task that is edited, as the server shows it; a nested
 * field (retry.backoff) is set in its present object. NULL: there is none, and a field that the body has already is
 * refused. */
enum err task_sets_apply(const struct options *o, const struct json_doc *current, struct buf *body,
                         struct error *e) must_use;
bool task_sets_are_nested(const struct options *o);
bool task_sets_begin_with(const struct options *o, const char *prefix);

const char *task_idempotency_key(const struct options *o); /* of --idempotency-key; NULL: not given */

/* The path of the i-th field of a task body, and the flag that gives it (NULL: --set alone). NULL: there is none. */
const char *task_field_path(size_t i, const char **ret_flag);

/* Writes "target_config": {…}. Members of `current` (the present JSON text, or empty) that no option replaces are
 * kept. */
enum err target_write(const struct options *o, const struct target *t, struct str current, struct jw *w,
                      struct error *e) must_use;

/* After --set: curl -d sends its own Content-Type, unless a header gives another. A task that gets JSON in place of
 * form data loses that type. Data that begins like JSON and is not is refused in place of being sent as a form.
 * current: as in task_sets_apply. */
enum err target_type_apply(const struct target *t, const struct json_doc *current, struct buf *body,
                           struct error *e) must_use;

/* If the option was given, writes a member of its name: the option's text, which must be JSON; @FILE is read from a
 * file, - from stdin. */
enum err option_json_write(const struct options *o, const char *flag, struct jw *w, struct error *e) must_use;
