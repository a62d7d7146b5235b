#include "core/sharing/slot.h"

#include <assert.h>
#include <stdio.h>

#include "base/rfc3339.h"

enum { KEYS_BYTES_MAX = 1 << 28 };

static bool slot_needs_overlap(const struct task *t)
{
    return t->kind == TASK_OCCURRENCE && t->overlap != OVERLAP_ALLOW;
}

static bool slot_needs_key(const struct task *t)
{
    return t->kind != TASK_RECURRING && t->concurrency_limit > 0 && t->concurrency_key.n;
}

static void slot_set_key(struct slot_need *n, int length)
{
    assert(length > 0 && length < SLOT_KEY_MAX); /* the API limits concurrency keys to less */
    n->key = (struct str){ n->text, (size_t)length };
}

size_t slot_needs(const struct task *t, struct slot_need ret[SLOTS_MAX])
{
    size_t n = 0;
    if (slot_needs_overlap(t)) {
        char parent[UUID_TEXT + 1];
        struct slot_need *need = &ret[n++];
        need->kind = SLOT_OVERLAP;
        need->limit = 1;
        need->policy = t->overlap;
        uuid_format(t->parent, parent);
        slot_set_key(need, snprintf(need->text, sizeof need->text, "o:%s", parent));
    }
    if (slot_needs_key(t)) {
        struct slot_need *need = &ret[n++];
        bool is_run = t->target == TARGET_WORKFLOW;
        need->kind = is_run ? SLOT_RUN : SLOT_KEY;
        need->limit = t->concurrency_limit;
        need->policy = OVERLAP_QUEUE_ALL;
        slot_set_key(need, snprintf(need->text, sizeof need->text, "%c:%d:" STR_FMT, is_run ? 'w' : 'c', (int)t->tenant,
                                    STR_ARG(t->concurrency_key)));
    }
    return n;
}

enum slot_kind slot_kind_of(struct str key)
{
    assert(key.n > 2 && (key.p[0] == 'o' || key.p[0] == 'c' || key.p[0] == 'w') && key.p[1] == ':');
    return key.p[0] == 'o' ? SLOT_OVERLAP : key.p[0] == 'w' ? SLOT_RUN : SLOT_KEY;
}

struct str slot_key_name(struct str key)
{
    size_t from = slot_kind_of(key) == SLOT_OVERLAP ? 2 : min_of(str_find(key, ':', 2) + 1, key.n);
    return str_sub(key, from, key.n);
}

enum late_cause slot_late_cause(enum slot_kind kind)
{
    return kind == SLOT_OVERLAP ? LATE_SLOT : LATE_KEY;
}

enum slot_answer slot_decide(const struct slot_need *need, size_t waiting, bool held_ahead, bool promised)
{
    if (held_ahead)
        return SLOT_WAIT;
    switch (need->policy) {
    case OVERLAP_SKIP: return SLOT_SKIP;
    case OVERLAP_QUEUE_ONE: return waiting ? SLOT_SKIP : SLOT_WAIT;
    case OVERLAP_CANCEL_PREVIOUS: return waiting && promised ? SLOT_WAIT : SLOT_REPLACE;
    case OVERLAP_ALLOW: /* needs no slot */
    case OVERLAP_QUEUE_ALL: break;
    }
    return SLOT_WAIT;
}

static bool slot_never_fired(const struct task *t)
{
    return t->attempts == 0 && t->losses == 0 && t->started_ms == 0;
}

bool slot_is_held_ahead(const struct task *holder, int64_t now_ms)
{
    return holder->due_ms > now_ms && slot_never_fired(holder);
}

bool slot_outlives(enum slot_kind kind, enum task_state next)
{
    return kind == SLOT_KEY ? next == TASK_RUNNING : !task_is_final(next);
}

static bool slot_is_needed(const struct task *t, struct str key)
{
    struct slot_need needs[SLOTS_MAX];
    for (size_t i = slot_needs(t, needs); i-- > 0;)
        if (str_eq(needs[i].key, key))
            return true;
    return false;
}

bool slot_is_kept(const struct task *t, struct str key)
{
    enum slot_kind kind = slot_kind_of(key);
    bool idle = t->state == TASK_SCHEDULED || t->state == TASK_PAUSED;
    if (kind != SLOT_KEY && idle && slot_never_fired(t))
        return false;
    return !t->deleted && slot_outlives(kind, t->state) && slot_is_needed(t, key);
}

void slot_tidy(struct task *t, struct str waited_for)
{
    if (t->waits_for.n == 0)
        return;
    bool blocked = t->state == TASK_BLOCKED && !t->deleted;
    bool waits = blocked && waited_for.n && slot_is_needed(t, waited_for);
    t->waits_for = waits ? waited_for : (struct str){ 0 };
    if (blocked && !waits)
        t->state = TASK_SCHEDULED;
}

static struct str slot_format_reason(const char *before, int64_t ms, const char *behind, char out[SLOT_REASON_MAX])
{
    char when[RFC3339_TEXT + 1];
    rfc3339_format(ms, when);
    int n = snprintf(out, SLOT_REASON_MAX, "%s%s%s", before, when, behind);
    assert(n > 0 && n < SLOT_REASON_MAX);
    return (struct str){ out, (size_t)n };
}

struct str slot_skip_reason(int64_t holder_scheduled_ms, char out[SLOT_REASON_MAX])
{
    return slot_format_reason("skipped: the run of ", holder_scheduled_ms, " is not over", out);
}

struct str slot_replace_reason(int64_t by_scheduled_ms, char out[SLOT_REASON_MAX])
{
    return slot_format_reason("replaced by the run of ", by_scheduled_ms, "", out);
}

/* ---- lists of keys ---- */

void slot_keys_init(struct slot_keys *k)
{
    buf_init(&k->text, KEYS_BYTES_MAX);
}

void slot_keys_release(struct slot_keys *k)
{
    buf_release(&k->text);
}

void slot_keys_add(struct slot_keys *k, struct str key)
{
    size_t at = 0;
    for (struct str there; slot_keys_next(k, &at, &there);)
        if (str_eq(there, key))
            return;
    buf_add(&k->text, key);
    buf_char(&k->text, '\0');
    assert(!k->text.full);
}

bool slot_keys_next(const struct slot_keys *k, size_t *at, struct str *ret)
{
    if (*at >= k->text.n)
        return false;
    *ret = str_from(k->text.p + *at);
    *at += ret->n + 1;
    return true;
}
