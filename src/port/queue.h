#pragma once
/* port/queue.h - carries claimed tasks from the scheduler to the workers.
 *
 * Every adapter passes tests/conformance/queue_suite.c, which holds it to this:
 *  - a queue holds only what is due: tasks are pushed at their exact time, so workers need no clock;
 *  - what was pushed is delivered to exactly one worker, or lapses;
 *  - a delivery not renewed within its visibility timeout lapses: it is reported once by `lapsed`, never delivered again;
 *  - what was recalled is not delivered; what was delivered cannot be recalled;
 *  - deliveries come in the order they were pushed; one pushed again while it is known counts once;
 *  - a timeout is over at now + visibility_ms, not before; until `lapsed` has reported it, renew and ack still hold;
 *  - renew and ack of what is unknown or still waits, and recall of what is unknown, change nothing and succeed;
 *  - an arena too small for all gets as many as fit, the rest stays; ERR_LIMIT when not even one does;
 *  - arguments are borrowed for the call; results live in the caller's arena. */
#include "core/task.h"

enum { TAKE_MAX = 4096, PUSH_MAX = 8192 };

struct take {
    size_t max;
    int64_t now_ms;
    int64_t visibility_ms;
    struct uuid worker;
};

/* What names one delivery. */
struct delivery_id {
    struct uuid task;
    int64_t fence;
};

struct queue {
    const struct queue_ops *ops;
};

struct queue_ops {
    enum err (*push)(struct queue *, const struct task *tasks, size_t n, struct error *); /* all or none */
    enum err (*take)(struct queue *, const struct take *, struct arena *, struct tasks *ret, struct error *);
    enum err (*renew)(struct queue *, const struct delivery_id *, size_t n, int64_t until_ms, struct error *);
    enum err (*ack)(struct queue *, const struct delivery_id *, size_t n, struct error *); /* unknown ones are fine */
    enum err (*lapsed)(struct queue *, int64_t now_ms, struct arena *, struct tasks *ret, struct error *);
    enum err (*recall)(struct queue *, struct delivery_id, bool *ret_recalled, struct error *);
    size_t (*depth)(struct queue *); /* waiting, not yet delivered */
    void (*free)(struct queue *);
};

enum err queue_push(struct queue *q, const struct task *tasks, size_t n, struct error *e) must_use;
enum err queue_take(struct queue *q, const struct take *t, struct arena *a, struct tasks *ret,
                    struct error *e) must_use;
enum err queue_renew(struct queue *q, const struct delivery_id *v, size_t n, int64_t until_ms,
                     struct error *e) must_use;
enum err queue_ack(struct queue *q, const struct delivery_id *v, size_t n, struct error *e) must_use;
enum err queue_lapsed(struct queue *q, int64_t now_ms, struct arena *a, struct tasks *ret, struct error *e) must_use;
enum err queue_recall(struct queue *q, struct delivery_id d, bool *ret_recalled, struct error *e) must_use;
size_t queue_depth(struct queue *q);
void queue_free(struct queue *q);
