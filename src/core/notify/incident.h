#pragma once
/* core/notify/incident.h - an incident: hits of one setting, kind and cause, and what was told of it.
 *
 * Pure. A document of the store holds an incident; the notifier reads it, adds hits, asks incident_plan what to do at a
 * time, and writes it back.
 *
 *  1. An incident opens with its first hit. It is told `group_wait` later, then counts silently.
 *  2. While it is open and nobody has acknowledged it, it is told again every `repeat_every`, and to each step of the
 *     setting, `after` the first message.
 *  3. It ends when its recurring tasks have recovered: succeeded, or been changed, cancelled or deleted. Without
 *     recurring tasks, or with mode EVERY, it ends `group_window` after its last hit. Hits of SUCCESS and RETRY count
 *     as EVERY: of what comes after a message there is another one, `group_window` after the last.
 *  4. Only an end by recovery is told, if the setting wants it. One that ends before it was told is told once, as
 *     closed, whether or not the setting wants to know of recoveries.
 *  5. A muted incident or setting is told when the mute ends, if it is still open then.
 *  6. With `after`, it is told when so many occurrences of a recurring task have failed in a row, or, without recurring
 *     tasks, when it has so many hits.
 *  7. An ALERT has no hits: it opens when a rule of core/stats/alert_rules.h fires, and recovers when the rule does not
 *     fire any more. Mode and `after` do not count.
 *  8. A task that misses its check joins the incident of others that did. If that was told before, it is told again,
 *     `group_wait` later and JOINED_APART_MS after the last message, with this task first. Who acknowledged it did not
 *     know of this task, so that does not count any more.
 *  9. A message is written when it is sent. Its first attempt carries the tasks that have joined since it was made, and
 *     no other message tells of them. A later attempt has the same id, by which a receiver may know it: it leaves out
 *     the tasks that have joined since the first, and the next message tells of them. */
#include "core/notify/setting.h"

/* Kinds of incidents: those of hits, one for tasks that become dead letters, and one for rules that fire. */
#define INCIDENT_KIND_MAP(X) X(SUCCESS) X(FAILURE) X(RETRY) X(MISSED) X(DEAD_LETTER) X(ALERT)
enum incident_kind {
#define X(name) INCIDENT_##name,
    INCIDENT_KIND_MAP(X)
#undef X
};
enum { INCIDENT_KINDS = INCIDENT_ALERT + 1 };
extern const char *const incident_kind_names[INCIDENT_KINDS + 1];

/* What happens to an incident, for those who watch it. */
#define INCIDENT_CHANGE_MAP(X) X(OPENED) X(TOLD) X(ACKNOWLEDGED) X(MUTED) X(CLOSED) X(UNMUTED)
enum incident_change {
#define X(name) INCIDENT_CHANGE_##name,
    INCIDENT_CHANGE_MAP(X)
#undef X
};
enum { INCIDENT_CHANGES = INCIDENT_CHANGE_UNMUTED + 1 };
extern const char *const incident_change_names[INCIDENT_CHANGES + 1];

enum {
    INCIDENT_TASKS_MAX = 10,       /* shown with what happened */
    INCIDENT_RECURRING_MAX = 1000, /* whose recovery is awaited */
    INCIDENT_ERROR_MAX = 500,
    INCIDENT_HOST_CAUSES = 3, /* of one host; further causes of it are one incident, "host:HOST" */
    INCIDENTS_OPEN_MAX = 100, /* of a setting; more causes are one incident, "other" */
    INCIDENT_KEY_TEXT = 64,
    RECOVERY_EVERY_MS = 5000, /* it is looked for, after a tenth of the time since the last hit, within these two */
    RECOVERY_LATEST_MS = 60000,
    JOINED_APART_MS = 10000, /* from a message to the next one that tells of tasks that joined */
    ALERT_LOOK_MS = 60000,   /* the setting of an ALERT may have changed */
};

struct incident_task {
    struct uuid id;
    struct str name, queue, error;
    int64_t scheduled_ms, attempt, http_status;
};

struct incident {
    struct uuid id, setting;
    int kind; /* enum incident_kind */
    struct str cause;
    struct str detail; /* of an ALERT: a sentence about the rule */
    struct str host;   /* that its tasks call; empty: none, or not known */
    int64_t count, first_ms, last_ms;
    int64_t fails;         /* the longest series of failures of one recurring task; with `after` */
    int64_t told, told_ms; /* messages to the setting's own channel; when the last one was made */
    int64_t told_count;    /* `count`, as of the last message */
    int64_t first_told_ms; /* when the first one was made */
    int64_t steps_told;    /* steps of the setting that were told */
    int64_t joined_ms;     /* a task joined that no message tells of (rule 8); 0: none */
    int64_t joined;        /* how many of the first `tasks` these are */
    int64_t closed_ms;     /* 0: open */
    bool recovered;        /* it was closed by that */
    bool changed;          /* a recurring task did not succeed since, but was changed, cancelled or deleted */
    int64_t acked_ms;      /* 0: not acknowledged */
    struct str acked_by;
    int64_t muted_until_ms;
    struct incident_task *tasks; /* the first ones */
    size_t task_count;
    struct uuid *recurring; /* not recovered yet */
    size_t recurring_count;
    int64_t recurring_more; /* that had no room */
};

void incident_key(struct uuid setting, enum incident_kind kind, struct str cause, char out[INCIDENT_KEY_TEXT]);

enum err incident_read(struct str doc, struct arena *a, struct incident *ret, struct error *e) must_use;
void incident_write_task(struct jw *w, const struct incident_task *t); /* as stored, shown and told */
void incident_write(struct jw *w, const struct incident *i);           /* one object */

/* Whether a setting wants an incident of this kind for a hit; of FAILED tasks, is_dead_letter. False: none. */
bool incident_kind_of(const struct setting *s, enum hit_kind hit, bool is_dead_letter, enum incident_kind *ret);
bool incident_is_every(const struct incident *i, const struct setting *s);
/* For people. Successes that are told together are over as soon as they happen: nobody has to look after them. */
bool incident_is_open(const struct incident *i);

/* Adds a task to the incident; false if the arena is full. parent: of an OCCURRENCE. */
bool incident_add_task(struct incident *i, const struct incident_task *t, struct uuid parent, struct arena *a) must_use;

/* Rule 8: the task, which was added just now, is new to the incident. */
void incident_join(struct incident *i, const struct incident_task *t, int64_t at_ms);
/* Rule 9: a message carries the tasks that have joined. */
void incident_tell_joined(struct incident *i);
/* Rule 9: the incident without the tasks that have joined since. Its lists are borrowed. */
struct incident incident_before_joined(const struct incident *i);

enum notification_type {
    MESSAGE_NONE,
    MESSAGE_OPENED,
    MESSAGE_REPEATED,
    MESSAGE_ESCALATED,
    MESSAGE_CLOSED,
    MESSAGE_TEST,
    MESSAGE_SUPPRESSED
};
enum { MESSAGE_TYPES = MESSAGE_SUPPRESSED + 1 };
extern const char *const notification_type_names[MESSAGE_TYPES + 1]; /* "incident.opened" */

/* What to do now. The caller makes the message, then asks again until there is nothing to do. */
struct incident_plan {
    enum notification_type tell; /* MESSAGE_NONE: nothing */
    int64_t step;                /* of ESCALATED, from 1 on; else 0 */
    bool close;                  /* it ends now, without a message */
    int64_t next_ms;             /* when to ask again; 0: never */
};
/* recovered: its recurring tasks have all succeeded, or are gone. */
struct incident_plan incident_plan(const struct incident *i, const struct setting *s, bool recovered, int64_t now_ms);
/* The plan was carried out. */
void incident_carry_out(struct incident *i, const struct incident_plan *p, int64_t now_ms);

/* The id of the message of a plan that is made at now_ms. */
struct uuid notification_id(const struct incident *i, const struct incident_plan *p, int64_t now_ms);
