#pragma once
/* cli/task_body.h - the options of `add` and `edit` as the JSON body of a task: one table maps flags to fields. */
#include "base/json/jsonw.h"
#include "cli/cli.h"

enum { TASK_OPTION_COUNT = 32 };
extern const struct option task_options[TASK_OPTION_COUNT];

enum { TASK_BODY_MAX = 16 << 20 };

/* The parts of a target that the options give. */
struct target {
    struct str url;  /* empty: not given */
    bool given;      /* any of url, method, headers, body */
    struct buf body; /* JSON; empty: none */
};

/* url: the argument with the URL, or empty. Reads the body from --data, its file or stdin. */
enum err target_read(const struct options *o, struct str url, struct target *ret, struct error *e) must_use;
void target_release(struct target *t);

/* Writes the JSON members of all given options except the target. At most one schedule may be given. */
enum err task_members_write(const struct options *o, struct jw *w, struct error *e) must_use;

/* Writes "target_config": {…}. Members of `current` (the present JSON text, or empty) that no option replaces are
 * kept. */
enum err target_write(const struct options *o, const struct target *t, struct str current, struct jw *w,
                      struct error *e) must_use;
