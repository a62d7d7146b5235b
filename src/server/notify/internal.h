#pragma once
/* server/notify/internal.h - shared by the files of the notifier. All functions: its thread. */
#include <pthread.h>

#include "base/thread_owner.h"
#include "core/notify/check.h"
#include "core/notify/notification.h"
#include "core/stats/alert_rules.h"
#include "server/notify/channel_places.h"
#include "server/notify/notifier.h"

enum { LOOKED_AT_MAX = 20 }; /* more are written, so that they do not hide others that are due */
enum { TURN_ARENA = 64 << 20, DOC_MAX = RECORD_DOC_MAX, FOLD_HITS = 200, FOLD_INCIDENTS = 200, RESULTS = 3 };

/* A message that is being sent. */
struct sent_message {
    bool is_used;
    int place;            /* of notifier.places; PLACE_NONE: none */
    struct record record; /* without texts */
    char *doc;            /* of the message */
};

struct alert_list {
    struct alert v[ALERTS_MAX];
    size_t n; /* 0: this node does not act for all */
};

/* An incident that was looked at, and of which nothing has changed: it is not written, only looked at again. */
struct looked_at {
    struct uuid id;
    int64_t version, next_ms;
};

struct notifier {
    struct notifier_setup setup;
    struct reader *reader;
    struct sender *sender;
    struct uuid_gen ids;
    pthread_t thread;
    struct thread_owner owner; /* the thread: it uses what is above and the next */
    struct sent_message deliveries[SENDER_SLOTS];
    struct channel_places places;
    struct looked_at looked_at[LOOKED_AT_MAX];
    uint64_t planned_for; /* the generation of the catalog for which open incidents are planned */
    bool is_replanning;   /* they are gone through, page by page */
    struct uuid replanned;
    int32_t last_tenant; /* whose messages were taken last */
    /* the setting up to which tenants with hidden messages were looked for; empty: from the first one on */
    int32_t hidden_tenant;
    char hidden_after[CATALOG_NAME_MAX + 1];
    int64_t beat_ms; /* when the heartbeat was due last */
    bool beat_is_under_way, beat_failed;
    int64_t purged_ms;
    bool took;                                /* messages, at least once */
    int64_t failing_ms;                       /* since when turns fail; 0: they do not */
    int64_t oldest_hit_ms, oldest_message_ms; /* as of this turn; 0: there is none */

    /* Guards the listener, which is called with it: a lock of its own, because the listener takes those of live events,
     * and these are held by threads that take the next one. */
    pthread_mutex_t listener_lock;
    const struct notifier_listener *listener; /* NULL: none */
    void *listener_context;

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t wakeup;
    bool stopping, applied;
    int64_t counts[CHANNEL_KINDS][RESULTS];
    int64_t oldest_ms; /* since when something waits to be folded or sent; 0: nothing does */
    struct alert_list alerts;
    uint64_t alerts_at, alerts_folded_at; /* how often they were handed over; which of them were folded */
};

/* A setting as one turn has read it. */
struct turn_setting {
    struct uuid id;
    struct setting setting;
};

struct turn_tenant {
    int32_t tenant;
    struct turn_setting *v;
    size_t n;
};

/* An incident that a turn changes. */
struct turn_incident {
    struct incident incident;
    const struct setting *setting;
    int32_t tenant;
    int64_t version; /* 0: it is new */
};

/* What readers of live events are told once it is written. */
struct turn_news {
    struct turn_news *next;
    int32_t tenant;
    struct incident incident;
    enum incident_change change;
};

/* One turn: what it has read, and what it will write. */
struct turn {
    struct notifier *notifier;
    struct arena arena;
    int64_t now_ms;
    struct turn_tenant *tenants;
    size_t tenant_count;
    struct turn_incident *incidents[FOLD_INCIDENTS];
    size_t incident_count;
    struct record_change changes[FOLD_RECORDS_MAX];
    size_t change_count;
    struct turn_news *news; /* the latest first */
};

/* ---- notifier.c ---- */

bool notifier_may_fold(const struct notifier *n);

/* ---- records.c: reading and writing ---- */

/* Applies an operation and waits for it. */
enum err notifier_apply(struct notifier *n, struct op *op, struct error *e) must_use;
enum err notifier_settings(struct turn *t, int32_t tenant, const struct turn_tenant **ret, struct error *e) must_use;
/* NULL: the tenant has no such setting. */
enum err notifier_setting(struct turn *t, int32_t tenant, struct uuid id, const struct setting **ret,
                          struct error *e) must_use;
enum err turn_add_incident(struct turn *t, const struct turn_incident *x, int64_t next_ms, struct error *e) must_use;
enum err turn_add_message(struct turn *t, int32_t tenant, const struct notification *m, int64_t version,
                          int64_t next_ms, struct str key, struct error *e) must_use;
/* A change of a check; next_ms < 0: it is removed. */
enum err turn_add_check(struct turn *t, const struct record *r, const struct check *c, int64_t next_ms,
                        struct error *e) must_use;
void turn_reset(struct turn *t); /* forgets the changes */
void turn_note(struct turn *t, const struct turn_incident *x, enum incident_change change);
void notifier_tell_task(struct notifier *n, const struct task *t); /* readers of live events, once it is written */
/* Writes all changes, and deletes the hits. ERR_CONFLICT: another node was first. */
enum err turn_write(struct turn *t, const struct uuid *hits, size_t hit_count, struct error *e) must_use;

/* ---- fold.c ---- */

/* Folds hits. *ret_more: there may be more. */
enum err notifier_fold(struct turn *t, bool *ret_more, struct error *e) must_use;
/* Something that happened to a task becomes part of the incidents of the settings that want it. The caller writes them,
 * after fold_carry_out_all. */
enum err fold_happening(struct turn *t, const struct hit *hit, const struct task *task, int64_t count,
                        struct error *e) must_use;
/* Does what is due of the incidents of this turn, and notes the changes. */
enum err fold_carry_out_all(struct turn *t, struct error *e) must_use;
/* Does what is due of an incident, and adds it to the changes. */
enum err fold_carry_out(struct turn *t, struct turn_incident *x, bool recovered, struct error *e) must_use;
/* If settings were changed, plans open incidents anew, a page a turn. */
enum err notifier_replan(struct turn *t, struct error *e) must_use;
/* Carries out what is due of incidents that are open. */
enum err notifier_look_at_incidents(struct turn *t, bool *ret_more, struct error *e) must_use;

/* ---- alert_incidents.c ---- */

/* Opens and ends incidents of alerts, if they were judged again. */
enum err notifier_fold_alerts(struct turn *t, struct error *e) must_use;

/* ---- checks.c ---- */

#define CAUSE_CHECK "check" /* of a missed deadline */
/* Judges the checks that are due. */
enum err notifier_look_at_checks(struct turn *t, bool *ret_more, struct error *e) must_use;

/* ---- disable.c ---- */

/* A message has failed for good: its setting is disabled, if that is so for days. */
void notifier_on_failed(struct turn *t, const struct record *of);

/* ---- deliver.c ---- */

/* Takes messages that are due and starts to send them. */
enum err notifier_take_messages(struct turn *t, struct error *e) must_use;
void notifier_on_result(struct notifier *n, const struct send_result *r);
