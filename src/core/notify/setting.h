#pragma once
/* core/notify/setting.h - a notification setting: which happenings, of which tasks, are told to whom and how often, as
 * read from its catalog entry.
 *
 * Secrets of a channel (a signing secret, a token, the URL of Slack) are write-only. In the document they may be
 * encrypted (port/secrets.h). */
#include "base/arena.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "base/uuid.h"
#include "core/notify/hit.h"
#include "core/task/task.h"

#define CHANNEL_MAP(X) X(EMAIL) X(SLACK_WEBHOOK) X(HTTP_WEBHOOK) X(PUSH)
enum channel_kind {
#define X(name) CHANNEL_##name,
    CHANNEL_MAP(X)
#undef X
};
enum { CHANNEL_KINDS = CHANNEL_PUSH + 1 };
extern const char *const channel_names[CHANNEL_KINDS + 1]; /* NULL at the end */

enum setting_mode {
    SETTING_CHANGES, /* tells that something fails, and that it has recovered */
    SETTING_EVERY    /* tells of every group of happenings */
};

enum {
    SETTING_STEPS_MAX = 5,
    SETTING_TEXT_MAX = 200,
    SETTINGS_MAX = 100, /* of a tenant */
    CHANNEL_TO_MAX = 20,
    CHANNEL_SECRETS = 3,
};

/* Where a message goes. Only the members of its kind are set. */
struct channel {
    struct str url;         /* of SLACK_WEBHOOK it is a secret */
    struct str secret;      /* HTTP_WEBHOOK: signs */
    struct str topic;       /* PUSH */
    struct str token;       /* PUSH: bearer */
    int64_t priority;       /* PUSH: 1 to 5 */
    struct str old_secret;  /* HTTP_WEBHOOK: signs beside the new one */
    int64_t old_until_ms;   /* until then */
    struct json_array to;   /* struct str: EMAIL */
    struct str signing_key; /* HTTP_WEBHOOK: the id of a signing key, in place of a secret */
};

struct setting_step {
    int64_t after_ms; /* the first message */
    int kind;         /* enum channel_kind */
    struct channel channel;
};

struct setting {
    struct str name, user_id;
    bool on_success, on_failure, on_retry, on_missed, on_dead_letter, on_recovered, on_alert;
    bool enabled;
    int kind; /* enum channel_kind */
    struct channel channel;
    struct { /* empty: any. A text that ends in '*' is a prefix */
        struct str queue, task_type, name;
    } filter;
    int mode;      /* enum setting_mode */
    int64_t after; /* failures in a row */
    int64_t group_wait_ms, group_window_ms, repeat_every_ms, max_per_hour, muted_until_ms;
    struct setting_step *steps;
    size_t step_count;
};

/* A new setting: enabled, with the defaults. */
struct setting setting_default(void);

/* Reads the members of an object into *into; absent members stay as they are. Texts live in the arena. The rules
 * between members are checked by setting_check. */

enum err setting_read_object(json_t *object, struct arena *a, struct setting *into, struct error *e) must_use;
enum err setting_read(struct str doc, struct arena *a, struct setting *ret, struct error *e) must_use;
enum err setting_check(const struct setting *s, struct error *e) must_use;

/* Writes the members into an object that is open. shown: secrets are ***, and only members of the API. */
void setting_write(struct jw *w, const struct setting *s, bool shown);

/* The secrets of a channel, each with the name of its field; a secret that is not there is empty. */
struct channel_secret {
    const char *field;
    struct str *text;
};
void channel_secrets(enum channel_kind kind, struct channel *c, struct channel_secret ret[CHANNEL_SECRETS]);

/* Bits 1 << enum hit_kind of what the setting wants; 0: it is disabled. */
unsigned setting_wants(const struct setting *s);
bool setting_matches(const struct setting *s, const struct task *t);
/* Whether the setting is told of a task. notify: the JSON array of the same name in the task (task_extra), with ids and
 * names of settings. These are told beside those whose filter matches; if it is empty, nobody is. */
bool setting_is_told(const struct setting *s, struct uuid id, const struct task *t, struct str notify);
bool setting_is_muted(const struct setting *s, int64_t now_ms);
