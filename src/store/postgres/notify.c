/* Notices between nodes, by LISTEN and NOTIFY. Two threads with a connection each: the sender runs NOTIFY after
 * commits, the listener LISTENs. No transaction waits for them. If a notice cannot be sent, it is merged into the next
 * one. When the listener reconnects, it reports "look at everything", because notices may have been lost.
 *
 * A notice is a line of text:
 *   "1 SENDER FLAGS DUE NUMBER"   a version; the sending process, 16 hexadecimal digits; a letter for each flag of
 *     struct store_notice; a time in milliseconds; the number of catalog changes so far
 *   "1 SENDER s 0 DATA"           tasks that were settled for other nodes (store/common/settled_notice.h)
 *   "1 SENDER k NODE TO NUMBER"   NODE has applied the catalog changes of process TO (store/common/catalog_barrier.h)
 *   "1 SENDER b 0 LINE"           a line of store_broadcast
 * A line of another version counts as "look at everything". Catalog changes and "k" lines are sent without delay,
 * because callers wait for them. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "platform/clock_system.h"
#include "port/crypto.h"
#include "store/common/catalog_barrier.h"
#include "store/common/settled_notice.h"
#include "store/postgres/internal.h"

#define CHANNEL "belfry"

enum {
    GATHER_MS = 5, /* pause between two lines */
    /* Later due times are not sent: the other nodes poll every second, and clocks may differ. */
    NEAR_MS = 2000,
    AGAIN_MS = 200,   /* pause between two tries to reach the server */
    PROBE_MS = 10000, /* a connection without input for so long is probed */
    LINE_MAX_SIZE = 128,
    SETTLED_LINES = 4,    /* sent in one go */
    SETTLED_MAX = 100000, /* waiting to be sent; lost ones are found by OP_RUNNING */
    BROADCASTS_MAX = 256, /* waiting to be sent; further ones are lost */
    BROADCASTS_AT_ONCE = 8,
    NS_IN_MS = 1000000,
    US_IN_MS = 1000,
};

struct pg_broadcast {
    struct list link;
    size_t n;
    char line[];
};

struct pg_notifier {
    struct store_postgres_setup setup; /* its strings are the store's */
    char sender[BARRIER_NAME + 1];
    struct catalog_barriers catalog_barriers;
    pthread_mutex_t lock; /* guards the fields below, up to `broadcasts` */
    pthread_cond_t wake;
    struct store_notice pending;
    bool has_pending, has_sender, stopping;
    struct barrier_word applied[BARRIER_OWED_MAX]; /* "k" lines to send */
    size_t applied_count;
    struct settled_list settled; /* to send */
    struct list broadcasts;      /* the same: struct pg_broadcast */
    size_t broadcast_count;

    struct settled_list received; /* used by the listener only */
    pthread_t sender_thread, listener_thread;
    struct pg_conn send_conn, listen_conn;
    struct store_watch *watch;    /* used by the listener while it runs */
    atomic_bool listener_stopped; /* the listener is to end, or there is none */
    int wake_fd;
};

/* ---- lines ---- */

static const struct {
    char letter;
    size_t offset;
} kinds[] = {
    { 'd', offsetof(struct store_notice, due) },        { 'l', offsetof(struct store_notice, lanes) },
    { 'c', offsetof(struct store_notice, catalog) },    { 'w', offsetof(struct store_notice, recall_requested) },
    { 'g', offsetof(struct store_notice, given_back) }, { 'n', offsetof(struct store_notice, nodes) },
    { 'a', offsetof(struct store_notice, all) },
};

static bool *pg_notifier_flag(struct store_notice *n, size_t i)
{
    return (bool *)(void *)((char *)n + kinds[i].offset);
}

static void pg_notifier_write_line(const char *sender, struct store_notice n, uint64_t number, char out[LINE_MAX_SIZE])
{
    char what[array_count(kinds) + 1] = "";
    size_t count = 0;
    for (size_t i = 0; i < array_count(kinds); i++)
        if (*pg_notifier_flag(&n, i))
            what[count++] = kinds[i].letter;
    snprintf(out, LINE_MAX_SIZE, "1 %s %s %" PRId64 " %" PRIu64, sender, what, n.due ? n.due_ms : 0, number);
}

static void pg_notifier_write_applied(const char *sender, struct uuid node, const struct barrier_word *w,
                                      char out[LINE_MAX_SIZE])
{
    char id[UUID_TEXT + 1];
    uuid_format(node, id);
    snprintf(out, LINE_MAX_SIZE, "1 %s k %s %s %" PRIu64, sender, id, w->to, w->number);
}

/* The rest of a "k" line. An unreadable one is ignored. */
static void pg_notifier_read_applied(struct pg_notifier *n, struct str rest)
{
    struct str id, to, number;
    struct uuid node;
    int64_t value;
    if (str_cut(&rest, ' ', &id) && uuid_parse(id, &node) && str_cut(&rest, ' ', &to) &&
        str_eq(to, str_from(n->sender)) && str_cut(&rest, ' ', &number) && str_to_i64(number, 0, INT64_MAX, &value))
        catalog_barriers_applied(&n->catalog_barriers, node, (uint64_t)value);
}

/* Returns false if the line carries no flags for this node: it is our own, a "k" line, a broadcast, or a list of settled
 * tasks, which is collected in n->received. An unreadable line comes from a newer version and counts as "look at
 * everything". */
static bool pg_notifier_read_line(struct pg_notifier *n, const char *line, struct store_notice *ret)
{
    struct str rest = str_from(line), version, sender, what, due, number;
    int64_t due_ms, change = 0;
    *ret = (struct store_notice){ .all = true };
    if (!str_cut(&rest, ' ', &version) || !str_eq(version, S("1")) || !str_cut(&rest, ' ', &sender) ||
        !str_cut(&rest, ' ', &what))
        return true;
    if (str_eq(sender, str_from(n->sender)))
        return false;
    if (str_eq(what, S("k"))) {
        pg_notifier_read_applied(n, rest);
        return false;
    }
    if (!str_cut(&rest, ' ', &due) || !str_to_i64(due, 0, INT64_MAX, &due_ms))
        return true;
    if (str_eq(what, S("s"))) {
        settled_read(&n->received, rest);
        return false;
    }
    if (str_eq(what, S("b"))) {
        n->watch->on_notice(n->watch, &(struct store_notice){ .broadcast = rest });
        return false;
    }
    *ret = (struct store_notice){ .due_ms = due_ms };
    for (size_t i = 0; i < array_count(kinds); i++)
        *pg_notifier_flag(ret, i) = str_find(what, kinds[i].letter, 0) < what.n;
    if (ret->catalog && str_cut(&rest, ' ', &number) && str_to_i64(number, 1, INT64_MAX, &change))
        ret->catalog_change = catalog_barriers_on_message(&n->catalog_barriers, sender, (uint64_t)change);
    return true;
}

static void pg_notifier_merge(struct store_notice *all, struct store_notice one)
{
    if (one.due && (!all->due || one.due_ms < all->due_ms))
        all->due_ms = one.due_ms;
    all->catalog_change = max_of(all->catalog_change, one.catalog_change);
    for (size_t i = 0; i < array_count(kinds); i++)
        *pg_notifier_flag(all, i) = *pg_notifier_flag(all, i) || *pg_notifier_flag(&one, i);
}

static bool pg_notifier_has_flags(struct store_notice n)
{
    bool any = false;
    for (size_t i = 0; i < array_count(kinds); i++)
        any = any || *pg_notifier_flag(&n, i);
    return any;
}

/* ---- sending ---- */

/* Whether a caller waits for a pending line. */
static bool pg_notifier_is_urgent(const struct pg_notifier *n)
{
    return n->applied_count || (n->has_pending && n->pending.catalog);
}

/* Waits for that time. Ends early if the notifier stops, or if a line becomes urgent and is not to wait. */
static void pg_notifier_pause(struct pg_notifier *n, int64_t ms, bool even_if_urgent)
{
    struct timespec until = clock_condition_end(ms * US_IN_MS);
    while (!n->stopping && (even_if_urgent || !pg_notifier_is_urgent(n)) &&
           pthread_cond_timedwait(&n->wake, &n->lock, &until) != ETIMEDOUT)
        ;
}

static enum err pg_notifier_send_line(struct pg_notifier *n, const char *line)
{
    static const struct pg_statement statement = { "notify", "SELECT pg_notify('" CHANNEL "', $1)" };
    struct pg_params p;
    struct error e;
    pg_params_init(&p);
    pg_add_text(&p, str_from(line));
    enum err rc = pg_conn_ready(&n->send_conn, &e);
    if (rc == ERR_OK)
        rc = pg_run(&n->send_conn, &statement, &p, NULL, &e);
    pg_params_release(&p);
    return rc;
}

/* NUMBER is taken at this moment: it is not lower than that of any change in the notice. */
static enum err pg_notifier_send_notice(struct pg_notifier *n, struct store_notice notice)
{
    char line[LINE_MAX_SIZE];
    pg_notifier_write_line(n->sender, notice, catalog_barriers_on_sent(&n->catalog_barriers), line);
    return pg_notifier_send_line(n, line);
}

/* If one cannot be sent, it is lost: by the time of a retry its receiver has stopped waiting. */
static void pg_notifier_send_applied(struct pg_notifier *n, const struct barrier_word *words, size_t count)
{
    char line[LINE_MAX_SIZE];
    struct uuid self = catalog_barriers_self(&n->catalog_barriers);
    enum err rc = ERR_OK;
    for (size_t i = 0; i < count && rc == ERR_OK; i++) {
        pg_notifier_write_applied(n->sender, self, &words[i], line);
        rc = pg_notifier_send_line(n, line);
    }
}

/* Sends a few lines at a time; the caller comes back for the rest. If a line cannot be sent, it is lost. */
static void pg_notifier_send_settled(struct pg_notifier *n, const struct fenced_id *v, size_t count)
{
    struct buf line;
    enum err rc = ERR_OK;
    buf_init(&line, SETTLED_LINE_MAX);
    for (size_t at = 0; at < count && rc == ERR_OK;) {
        buf_reset(&line);
        buf_printf(&line, "1 %s s 0 ", n->sender);
        at += settled_write(&line, v + at, count - at);
        rc = pg_notifier_send_line(n, buf_cstr(&line));
    }
    buf_release(&line);
}

/* If a line cannot be sent, it is lost. */
static void pg_notifier_send_broadcasts(struct pg_notifier *n, struct list *lines)
{
    struct buf line;
    enum err rc = ERR_OK;
    buf_init(&line, SETTLED_LINE_MAX);
    for (struct list *link; (link = list_pop(lines));) {
        struct pg_broadcast *b = container_of(link, struct pg_broadcast, link);
        buf_reset(&line);
        buf_printf(&line, "1 %s b 0 " STR_FMT, n->sender, (int)b->n, b->line);
        if (rc == ERR_OK)
            rc = pg_notifier_send_line(n, buf_cstr(&line));
        free(b);
    }
    buf_release(&line);
}

/* Called with the lock held. */
static void pg_notifier_take_broadcasts(struct pg_notifier *n, struct list *ret)
{
    list_init(ret);
    for (int i = 0; i < BROADCASTS_AT_ONCE && n->broadcast_count; i++) {
        list_push(ret, list_pop(&n->broadcasts));
        n->broadcast_count--;
    }
}

/* Called with the lock held; releases it while it sends. */
static enum err pg_notifier_send_pending(struct pg_notifier *n)
{
    struct barrier_word words[BARRIER_OWED_MAX];
    struct store_notice notice = n->has_pending ? n->pending : (struct store_notice){ 0 };
    struct fenced_id settled[SETTLED_LINES * SETTLED_LINE_COUNT];
    size_t word_count = n->applied_count, settled_count = settled_take(&n->settled, settled, array_count(settled));
    struct list lines;
    memcpy(words, n->applied, word_count * sizeof *words);
    pg_notifier_take_broadcasts(n, &lines);
    n->has_pending = false;
    n->applied_count = 0;
    pthread_mutex_unlock(&n->lock);
    pg_notifier_send_applied(n, words, word_count);
    pg_notifier_send_settled(n, settled, settled_count);
    pg_notifier_send_broadcasts(n, &lines);
    enum err rc = pg_notifier_has_flags(notice) ? pg_notifier_send_notice(n, notice) : ERR_OK;
    pthread_mutex_lock(&n->lock);
    if (rc) {
        pg_notifier_merge(&notice, n->has_pending ? n->pending : (struct store_notice){ 0 });
        n->pending = notice;
        n->has_pending = true;
    }
    return rc;
}

static void *pg_notifier_sender_main(void *context)
{
    struct pg_notifier *n = context;
    pthread_mutex_lock(&n->lock);
    while (!n->stopping) {
        if (!n->has_pending && !n->applied_count && !n->settled.n && !n->broadcast_count) {
            pthread_cond_wait(&n->wake, &n->lock);
            continue;
        }
        enum err rc = pg_notifier_send_pending(n);
        pg_notifier_pause(n, rc ? AGAIN_MS : GATHER_MS, rc != ERR_OK);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

/* Called with the lock held. */
static void pg_notifier_wake_sender(struct pg_notifier *n)
{
    if (!n->has_sender)
        n->has_sender = pthread_create(&n->sender_thread, NULL, pg_notifier_sender_main, n) == 0;
    pthread_cond_signal(&n->wake);
}

void pg_notifier_publish(struct pg_notifier *n, const struct store_notice *notice)
{
    struct store_notice one = *notice;
    one.due = one.due && one.due_ms <= clock_wall_ms(n->setup.clock) + NEAR_MS;
    if (!pg_notifier_has_flags(one))
        return;
    if (one.catalog)
        catalog_barriers_on_change(&n->catalog_barriers);
    pthread_mutex_lock(&n->lock);
    if (!n->has_pending)
        n->pending = (struct store_notice){ 0 };
    pg_notifier_merge(&n->pending, one);
    n->has_pending = true;
    pg_notifier_wake_sender(n);
    pthread_mutex_unlock(&n->lock);
}

void pg_notifier_settled(struct pg_notifier *n, const struct fenced_id *v, size_t count)
{
    pthread_mutex_lock(&n->lock);
    settled_add(&n->settled, v, min_of(count, SETTLED_MAX - n->settled.n));
    pg_notifier_wake_sender(n);
    pthread_mutex_unlock(&n->lock);
}

void pg_notifier_broadcast(struct pg_notifier *n, struct str line)
{
    struct pg_broadcast *b = xmalloc(sizeof *b + line.n);
    *b = (struct pg_broadcast){ .n = line.n };
    memcpy(b->line, line.p, line.n);
    pthread_mutex_lock(&n->lock);
    if (n->broadcast_count < BROADCASTS_MAX) {
        list_push(&n->broadcasts, &take(b)->link);
        n->broadcast_count++;
    }
    pg_notifier_wake_sender(n);
    pthread_mutex_unlock(&n->lock);
    free(b);
}

/* ---- catalog barrier ---- */

void pg_notifier_set_nodes(struct pg_notifier *n, struct uuid self, const struct node_rows *nodes)
{
    catalog_barriers_nodes(&n->catalog_barriers, self, nodes);
}

void pg_notifier_barrier_wait(struct pg_notifier *n, struct store_barrier *barrier)
{
    if (atomic_load(&n->listener_stopped))
        barrier->done(barrier); /* without a listener, no "k" line arrives */
    else
        catalog_barriers_wait(&n->catalog_barriers, barrier);
}

bool pg_notifier_barrier_cancel(struct pg_notifier *n, struct store_barrier *barrier)
{
    return catalog_barriers_cancel(&n->catalog_barriers, barrier);
}

/* Drops lines that do not fit: the barriers that wait for them have a time limit. */
void pg_notifier_catalog_applied(struct pg_notifier *n, uint64_t catalog_change)
{
    struct barrier_word words[BARRIER_OWED_MAX];
    size_t count = catalog_barriers_messages(&n->catalog_barriers, catalog_change, words);
    if (!count)
        return;
    pthread_mutex_lock(&n->lock);
    for (size_t i = 0; i < count && n->applied_count < BARRIER_OWED_MAX; i++)
        n->applied[n->applied_count++] = words[i];
    pg_notifier_wake_sender(n);
    pthread_mutex_unlock(&n->lock);
}

/* ---- receiving ---- */

/* Waits for input, at most that long. False: the listener is to end, or poll failed. */
static bool pg_notifier_wait_input(struct pg_notifier *n, int fd, int64_t ms)
{
    struct pollfd p[] = { { .fd = n->wake_fd, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
    int rc = poll(p, fd < 0 ? 1 : 2, (int)ms);
    return (rc >= 0 || errno == EINTR) && !atomic_load(&n->listener_stopped);
}

/* Merges all notifications that have arrived into one notice. */
static void pg_notifier_receive(struct pg_notifier *n)
{
    struct store_notice all = { 0 }, one;
    n->received.n = 0;
    for (PGnotify *line; (line = PQnotifies(n->listen_conn.pg)); PQfreemem(line))
        if (pg_notifier_read_line(n, line->extra, &one))
            pg_notifier_merge(&all, one);
    all.settled = n->received.v;
    all.settled_count = n->received.n;
    if (pg_notifier_has_flags(all) || all.settled_count)
        n->watch->on_notice(n->watch, &all);
}

static void pg_notifier_receive_until_lost(struct pg_notifier *n)
{
    struct error e;
    int64_t probed_ns = clock_steady_ns(n->setup.clock);
    while (pg_notifier_wait_input(n, PQsocket(n->listen_conn.pg), PROBE_MS)) {
        int64_t now_ns = clock_steady_ns(n->setup.clock);
        if (!PQconsumeInput(n->listen_conn.pg))
            return;
        pg_notifier_receive(n);
        if (now_ns - probed_ns < PROBE_MS * (int64_t)NS_IN_MS)
            continue;
        probed_ns = now_ns;
        if (pg_exec(&n->listen_conn, "SELECT 1", &e))
            return;
        pg_notifier_receive(n);
    }
}

/* After each connect it reports "look at everything": notices sent in between are lost. */
static void *pg_notifier_listener_main(void *context)
{
    static const struct store_notice everything = { .all = true };
    struct pg_notifier *n = context;
    struct error e;
    while (!atomic_load(&n->listener_stopped)) {
        if (pg_conn_ready(&n->listen_conn, &e) || pg_exec(&n->listen_conn, "LISTEN " CHANNEL, &e)) {
            (void)!pg_notifier_wait_input(n, -1, AGAIN_MS);
            continue;
        }
        n->watch->on_notice(n->watch, &everything);
        pg_notifier_receive(n);
        pg_notifier_receive_until_lost(n);
    }
    return NULL;
}

static void pg_notifier_stop_listening(struct pg_notifier *n)
{
    uint64_t one = 1;
    if (!n->watch)
        return;
    atomic_store(&n->listener_stopped, true);
    (void)!write(n->wake_fd, &one, sizeof one);
    pthread_join(n->listener_thread, NULL);
    (void)!read(n->wake_fd, &one, sizeof one);
    n->watch = NULL;
    catalog_barriers_give_up(&n->catalog_barriers);
}

void pg_notifier_watch(struct pg_notifier *n, struct store_watch *w)
{
    pg_notifier_stop_listening(n);
    if (!w)
        return;
    n->watch = w;
    atomic_store(&n->listener_stopped, false);
    if (pthread_create(&n->listener_thread, NULL, pg_notifier_listener_main, n) != 0) {
        n->watch = NULL; /* without a listener, polling finds the changes */
        atomic_store(&n->listener_stopped, true);
    }
}

/* ---- creating and freeing ---- */

enum err pg_notifier_new(const struct store_postgres_setup *setup, struct pg_notifier **ret, struct error *e)
{
    const char *listen_url = setup->listen_url ? setup->listen_url : setup->url;
    struct pg_conn send_conn = { 0 }, listen_conn = { 0 };
    uint64_t sender;
    if (pg_conn_init(&send_conn, setup->url, false, setup->clock, e) ||
        pg_conn_init(&listen_conn, listen_url, false, setup->clock, e)) {
        pg_conn_release(&send_conn);
        pg_conn_release(&listen_conn);
        return e->code;
    }
    struct pg_notifier *n = xnew(*n);
    n->setup = *setup;
    n->send_conn = send_conn;
    n->listen_conn = listen_conn;
    atomic_store(&n->listener_stopped, true);
    list_init(&n->broadcasts);
    catalog_barriers_init(&n->catalog_barriers);
    crypto_random(&sender, sizeof sender);
    snprintf(n->sender, sizeof n->sender, "%016" PRIx64, sender);
    pthread_mutex_init(&n->lock, NULL);
    clock_condition_init(&n->wake);
    n->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *ret = n;
    return ERR_OK;
}

void pg_notifier_free(struct pg_notifier *n)
{
    if (!n)
        return;
    pg_notifier_stop_listening(n);
    pthread_mutex_lock(&n->lock);
    n->stopping = true;
    pthread_cond_signal(&n->wake);
    pthread_mutex_unlock(&n->lock);
    if (n->has_sender)
        pthread_join(n->sender_thread, NULL);
    pg_conn_release(&n->send_conn);
    pg_conn_release(&n->listen_conn);
    close(n->wake_fd);
    catalog_barriers_release(&n->catalog_barriers);
    for (struct list *link; (link = list_pop(&n->broadcasts));)
        free(container_of(link, struct pg_broadcast, link));
    free(n->settled.v);
    free(n->received.v);
    pthread_mutex_destroy(&n->lock);
    pthread_cond_destroy(&n->wake);
    free(n);
}
