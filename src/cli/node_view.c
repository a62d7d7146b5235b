/* The status is a few numbers, copied after each step. Breakers may be thousands: those that are not closed are looked for now and
 * then, and at most BREAKERS_SHOWN are kept, so that what is made from them stays small. */
#include "cli/node_view.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/target_url.h"

enum { BREAKERS_SHOWN = 50, BREAKERS_MS = 500 };

struct shown_breaker {
    int32_t tenant;
    char host[TARGET_HOST_MAX];
    size_t host_size;
    struct breaker_status status;
};

struct shown_breakers {
    struct shown_breaker v[BREAKERS_SHOWN];
    size_t n;
};

struct node_view {
    pthread_mutex_t lock; /* over the next two */
    struct node_status status;
    struct shown_breakers breakers;
    int64_t looked_ms; /* the node's thread's, like the next */
    struct shown_breakers found;
};

struct node_view *node_view_new(void)
{
    struct node_view *v = xnew(*v);
    pthread_mutex_init(&v->lock, NULL);
    return v;
}

void node_view_free(struct node_view *v)
{
    if (!v)
        return;
    pthread_mutex_destroy(&v->lock);
    free(v);
}

static void keep_breaker(void *context, const struct breaker_view *b)
{
    struct shown_breakers *to = context;
    if (to->n == BREAKERS_SHOWN)
        return;
    struct shown_breaker *s = &to->v[to->n++];
    s->tenant = b->tenant;
    s->status = b->status;
    s->host_size = min_of(b->host.n, sizeof s->host);
    if (s->host_size)
        memcpy(s->host, b->host.p, s->host_size);
}

void node_view_update(struct node_view *v, struct node *n, int64_t now_ms)
{
    bool look = now_ms < v->looked_ms || now_ms >= v->looked_ms + BREAKERS_MS;
    if (look) {
        v->looked_ms = now_ms;
        v->found.n = 0;
        node_each_breaker(n, now_ms, keep_breaker, &v->found);
    }
    pthread_mutex_lock(&v->lock);
    v->status = node_status(n);
    if (look && (v->found.n || v->breakers.n)) {
        v->breakers.n = v->found.n;
        memcpy(v->breakers.v, v->found.v, v->found.n * sizeof *v->found.v);
    }
    pthread_mutex_unlock(&v->lock);
}

struct node_status node_view_status(struct node_view *v)
{
    pthread_mutex_lock(&v->lock);
    struct node_status s = v->status;
    pthread_mutex_unlock(&v->lock);
    return s;
}

static struct shown_breakers copy_breakers(struct node_view *v)
{
    pthread_mutex_lock(&v->lock);
    struct shown_breakers b = v->breakers;
    pthread_mutex_unlock(&v->lock);
    return b;
}

static struct str host_of(const struct shown_breaker *b)
{
    return (struct str){ b->host, b->host_size };
}

void node_view_breakers(struct node_view *v, struct jw *w)
{
    struct shown_breakers all = copy_breakers(v);
    jw_array(w);
    for (size_t i = 0; i < all.n; i++) {
        const struct shown_breaker *b = &all.v[i];
        jw_object(w);
        jw_kv_i64(w, "tenant", b->tenant);
        if (b->host_size)
            jw_kv_str(w, "host", host_of(b));
        jw_kv_cstr(w, "state", breaker_state_name(b->status.state));
        jw_kv_bool(w, "retry_after", b->status.held_by_retry_after);
        jw_kv_time(w, "since", b->status.since_ms);
        if (b->status.until_ms)
            jw_kv_time(w, "until", b->status.until_ms);
        jw_kv_i64(w, "failures", b->status.failures);
        jw_kv_i64(w, "calls", b->status.total);
        jw_kv_i64(w, "held", b->status.held);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void print_waits(const struct node_status *s, int64_t now_ms, struct buf *out)
{
    static const char *const names[] = { [CLASS_LOW] = "low", [CLASS_NORMAL] = "normal", [CLASS_HIGH] = "high" };
    buf_printf(
        out, "# HELP belfry_oldest_wait_seconds How long the first of what is due in a class has waited to be started\n"
             "# TYPE belfry_oldest_wait_seconds gauge\n");
    for (size_t i = 0; i < array_count(names); i++) {
        int64_t due_ms = s->scheduler.oldest_due_ms[i];
        int64_t wait_ms = due_ms == INT64_MAX ? 0 : max_of(now_ms - due_ms, (int64_t)0);
        buf_printf(out, "belfry_oldest_wait_seconds{class=\"%s\"} %lld.%03lld\n", names[i], (long long)(wait_ms / 1000),
                   (long long)(wait_ms % 1000));
    }
}

/* A host has no quote, backslash or line break in it, but nothing checks what only stands in a URL. */
static void print_label(struct str s, struct buf *out)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        buf_char(out, c < ' ' || c == '"' || c == '\\' || c > '~' ? '_' : (char)c);
    }
}

void node_view_metrics(struct node_view *v, int64_t now_ms, struct buf *out)
{
    struct node_status s = node_view_status(v);
    struct shown_breakers all = copy_breakers(v);
    print_waits(&s, now_ms, out);
    buf_printf(
        out,
        "# HELP belfry_breaker_state Circuit breakers that are not closed, some of them: 1 open, 2 half-open; no host: "
        "of the whole tenant\n# TYPE belfry_breaker_state gauge\n");
    for (size_t i = 0; i < all.n; i++) {
        const struct shown_breaker *b = &all.v[i];
        buf_printf(out, "belfry_breaker_state{tenant=\"%d\",host=\"", (int)b->tenant);
        print_label(host_of(b), out);
        buf_printf(out, "\"} %d\n", (int)b->status.state);
    }
}
