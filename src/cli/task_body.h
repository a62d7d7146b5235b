#pragma once
/* cli/task_body.h - what the options of `add` and `edit` say, as the JSON body of a task: one table from flag to field. */
#include "base/json/jsonw.h"
#include "cli/cli.h"

enum { TASK_OPTION_COUNT = 32 };
extern const struct option task_options[TASK_OPTION_COUNT];

enum { TASK_BODY_MAX = 16 << 20 };

/* The parts of an HTTP target that were given. */
struct target {
    struct str url;  /* empty: not given */
    bool given;      /* any of url, method, headers, body */
    struct buf body; /* JSON; empty: none */
};

/* url: the word that stands for it, or empty. Reads the body's file or stdin; refusals name the flag. */
enum err target_read(const struct options *o, struct str url, struct target *ret, struct error *e) must_use;
void target_release(struct target *t);

/* Members of a task for every schedule and plain option that was given. At most one schedule may be. */
enum err task_members_write(const struct options *o, struct jw *w, struct error *e) must_use;

/* "target_config": {…}; what `current` (its text as it is now, or empty) has and the options leave alone stays. */
enum err target_write(const struct options *o, const struct target *t, struct str current, struct jw *w,
                      struct error *e) must_use;
