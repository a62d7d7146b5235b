#pragma once
/* server/notify/internal.h - shared by the files of the notifier. All functions: its thread. */
#include <pthread.h>

#include "base/thread_owner.h"
#include "core/notify/check.h"
#include "core/notify/notification.h"
#include "server/notify/notifier.h"

enum { TURN_ARENA = 64 << 20, DOC_MAX = RECORD_DOC_MAX, FOLD_HITS = 200, FOLD_INCIDENTS = 200, RESULTS = 3 };

/* A message that is being sent. */
struct sent_message {
    bool is_used;
    struct record record; /* without texts */
    struct notification message;
};

struct notifier {
    struct notifier_setup setup;
    struct reader *reader;
    struct sender *sender;
    struct uuid_gen ids;
    pthread_t thread;
    struct thread_owner owner; /* the thread: it uses what is above and the next */
    struct sent_message deliveries[SENDER_SLOTS];
    int64_t purged_ms;
    bool took; /* messages, at least once */

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t wakeup;
    bool stopping, applied;
    int64_t counts[CHANNEL_KINDS][RESULTS];
    int64_t oldest_ms; /* when the oldest hit or due message came; 0: there is none */
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
};

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
/* Carries out what is due of incidents that are open. */
enum err notifier_look_at_incidents(struct turn *t, bool *ret_more, struct error *e) must_use;

/* ---- checks.c ---- */

#define CAUSE_CHECK "check" /* of a missed deadline */
/* Judges the checks that are due. */
enum err notifier_look_at_checks(struct turn *t, bool *ret_more, struct error *e) must_use;

/* ---- deliver.c ---- */

/* Takes messages that are due and starts to send them. */
enum err notifier_take_messages(struct turn *t, struct error *e) must_use;
void notifier_on_result(struct notifier *n, const struct send_result *r);
