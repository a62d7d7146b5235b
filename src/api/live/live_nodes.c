/* What other nodes tell, and what they are told. Lines may be lost: their counts are totals, so the next line makes up
 * for it. */
#include <stdlib.h>

#include "api/live/live_internal.h"
#include "base/json/json.h"

/* ---- what other nodes are told ---- */

/* With the head of the line, the counts and how many more, it fits. */
static void live_add_words(struct live_tenant *t, const struct buf *word, bool is_task)
{
    if (!word->full && t->words.n + word->n <= t->words.max)
        buf_add(&t->words, buf_str(word));
    else
        t->more += is_task;
}

/* If the line is full, it is sent now: errors are long, and LIVE_RATE tasks do not always fit in one line. */
void live_tell_task(struct live *l, struct live_tenant *t, const struct live_task *task)
{
    cleanup_with(buf_release) struct buf word = { 0 };
    if (!live_window_take(&t->told, l->now_ms)) {
        t->more++;
        return;
    }
    buf_init(&word, LIVE_TEXT_MAX);
    live_line_task(&word, task);
    live_line_details(&word, task);
    if (t->words.n + word.n > t->words.max)
        live_send_words(l, t, false);
    live_add_words(t, &word, true);
}

void live_tell_job(struct live_tenant *t, const struct live_job *j)
{
    cleanup_with(buf_release) struct buf word = { 0 };
    buf_init(&word, LIVE_TEXT_MAX);
    live_line_job(&word, j);
    live_add_words(t, &word, false);
}

void live_tell_incident(struct live_tenant *t, const struct live_incident *i)
{
    cleanup_with(buf_release) struct buf word = { 0 };
    buf_init(&word, LIVE_TEXT_MAX);
    live_line_incident(&word, i);
    live_add_words(t, &word, false);
}

void live_send_words(struct live *l, struct live_tenant *t, bool with_counts)
{
    cleanup_with(buf_release) struct buf line = { 0 };
    if (!t->is_told || (!t->words.n && !with_counts))
        return;
    buf_init(&line, STORE_BROADCAST_MAX);
    live_line_begin(&line, l->name, t->number);
    buf_add(&line, buf_str(&t->words));
    if (with_counts && t->more) {
        live_line_more(&line, t->more);
        t->more = 0;
    }
    if (with_counts) {
        struct live_counts c = live_counts_here(l, t);
        live_line_counts(&line, &c);
    }
    buf_reset(&t->words);
    store_broadcast(l->server->setup.store, buf_str(&line));
}

/* Heartbeats name the tenant, but the first one may take a second. */
void live_send_watch(struct live *l, const struct live_tenant *t)
{
    cleanup_with(buf_release) struct buf line;
    buf_init(&line, STORE_BROADCAST_MAX);
    live_line_begin(&line, l->name, t->number);
    live_line_watch(&line);
    store_broadcast(l->server->setup.store, buf_str(&line));
}

/* ---- which tenants are watched where ---- */

void live_describe(struct live *l, struct jw *w)
{
    pthread_mutex_lock(&l->lock);
    jw_key(w, "watched");
    jw_array(w);
    list_each (&l->active, link) {
        const struct live_tenant *t = container_of(link, struct live_tenant, active);
        if (t->is_watched)
            jw_i64(w, t->number);
    }
    jw_array_end(w);
    pthread_mutex_unlock(&l->lock);
}

/* The counts of this moment are what the other node counts from. */
static void live_tell(struct live *l, struct live_tenant *t)
{
    bool is_new = !t->is_told && !t->was_told;
    t->is_told = true;
    live_tenant_activate(l, t);
    if (is_new)
        live_send_words(l, t, true);
}

static void live_tell_from_now(struct live *l, const json_t *doc)
{
    size_t i;
    const json_t *watched;
    json_array_foreach (json_at(doc, "watched"), i, watched) {
        int64_t number = json_i64_at(watched, "", 0);
        if (number <= 0 || number > INT32_MAX)
            continue;
        live_tell(l, live_tenant_get(l, (int32_t)number));
    }
}

static void live_tell_none(struct live *l)
{
    int64_t now_ms = clock_steady_ms(l->server->setup.clock);
    list_each (&l->active, link) {
        struct live_tenant *t = container_of(link, struct live_tenant, active);
        t->was_told = t->is_told;
        t->is_told = now_ms < t->told_until_ms;
    }
}

/* What was collected for a tenant that nobody watches any more is dropped. */
static void live_forget_untold(struct live *l)
{
    list_each (&l->active, link) {
        struct live_tenant *t = container_of(link, struct live_tenant, active);
        if (t->is_told)
            continue;
        buf_reset(&t->words);
        t->more = 0;
        t->was_told = false;
        live_tenant_deactivate(t);
    }
}

/* ---- nodes that come and go ---- */

static struct live_peer live_peer_of(const struct node_row *row, const json_t *doc)
{
    struct live_peer p = { .id = row->id };
    struct str state = row->dead ? S("dead") : json_text_at(doc, "state");
    snprintf(p.state, sizeof p.state, STR_FMT, (int)state.n, state.p ? state.p : "");
    snprintf(p.name, sizeof p.name, STR_FMT, STR_ARG(row->name));
    return p;
}

static const struct live_peer *live_peer_find(const struct live_peer *v, size_t n, struct uuid id)
{
    for (size_t i = 0; i < n; i++)
        if (uuid_eq(v[i].id, id))
            return &v[i];
    return NULL;
}

static void live_keep_node(struct live *l, const struct live_peer *p, const char *state)
{
    struct live_tenant *t = live_tenant_get(l, TENANT_DEFAULT);
    cleanup_with(buf_release) struct buf text = { 0 };
    if (!t->is_watched)
        return;
    buf_init(&text, LIVE_TEXT_MAX);
    live_write_node(&text, &(struct live_node){ .id = p->id,
                                                .name = str_from(p->name),
                                                .state = str_from(state),
                                                .at_ms = clock_wall_ms(l->server->setup.clock) });
    live_log_add(&l->log, &t->part, &(struct live_event){ .kind = LIVE_NODE, .text = buf_str(&text) });
}

/* A dead node that is no longer listed has not changed. The first list is no change at all. */
static void live_replace_peers(struct live *l, struct live_peer *v, size_t n)
{
    for (size_t i = 0; l->peers && i < n; i++) {
        const struct live_peer *before = live_peer_find(l->peers, l->peer_count, v[i].id);
        if (!before || strcmp(before->state, v[i].state) != 0)
            live_keep_node(l, &v[i], v[i].state);
    }
    for (size_t i = 0; i < l->peer_count; i++)
        if (!live_peer_find(v, n, l->peers[i].id) && strcmp(l->peers[i].state, "dead") != 0)
            live_keep_node(l, &l->peers[i], "left");
    free(l->peers);
    l->peers = v;
    l->peer_count = n;
}

/* A node of another version may write other members. */
void live_on_nodes(struct live *l, const struct node_rows *rows, struct uuid self)
{
    struct live_peer *peers = xcalloc(rows->n + 1, sizeof *peers);
    pthread_mutex_lock(&l->lock);
    live_tell_none(l);
    for (size_t i = 0; i < rows->n; i++) {
        struct json_doc doc = { 0 };
        struct error e;
        bool ok = json_parse(rows->v[i].doc, &doc, &e) == ERR_OK;
        peers[i] = live_peer_of(&rows->v[i], doc.root);
        if (ok && !rows->v[i].dead && !uuid_eq(rows->v[i].id, self))
            live_tell_from_now(l, doc.root);
        if (ok)
            json_doc_release(&doc);
    }
    live_forget_untold(l);
    live_replace_peers(l, peers, rows->n);
    pthread_mutex_unlock(&l->lock);
}

/* ---- what other nodes tell ---- */

static struct live_sender *live_sender_get(struct live_tenant *t, struct str name, bool *ret_is_new)
{
    for (size_t i = 0; i < t->sender_count; i++)
        if (str_eq(str_from(t->senders[i].name), name)) {
            *ret_is_new = false;
            return &t->senders[i];
        }
    *ret_is_new = true;
    if (t->sender_count == LIVE_SENDERS_MAX) /* nodes that are gone: the next lines bring the others back */
        t->sender_count = 0;
    t->senders = xrealloc(t->senders, (t->sender_count + 1) * sizeof *t->senders);
    struct live_sender *s = &t->senders[t->sender_count++];
    *s = (struct live_sender){ 0 };
    snprintf(s->name, sizeof s->name, STR_FMT, STR_ARG(name));
    return s;
}

/* The first counts of a node are those of the time before someone watched: only what is added later counts. */
static void live_take_counts(struct live_tenant *t, struct str name, const struct live_counts *c, int64_t now_ms)
{
    bool is_new;
    struct live_sender *s = live_sender_get(t, name, &is_new);
    for (int i = 0; !is_new && i < LIVE_COUNTS; i++)
        t->elsewhere[i] += max_of(c->v[i] - s->counts.v[i], (int64_t)0);
    s->counts = *c;
    s->at_ms = now_ms;
}

static void live_take_word(struct live *l, struct live_tenant *t, struct str sender, const struct live_word *w,
                           int64_t now_ms)
{
    if (w->kind == LIVE_WORD_WATCH) {
        t->told_until_ms = now_ms + LIVE_TOLD_MS;
        t->is_told = t->was_told = false; /* this node has no counts yet, whoever else has */
        live_tell(l, t);
    }
    if (!t->is_watched)
        return;
    if (w->kind == LIVE_WORD_COUNTS)
        live_take_counts(t, sender, &w->counts, now_ms);
    else if (w->kind == LIVE_WORD_TASK)
        live_keep_task(l, t, &w->task);
    else if (w->kind == LIVE_WORD_MORE)
        t->filters.folded +=
            w->more; /* which tasks they are is not known: streams with a filter do not learn of them */
    else if (w->kind == LIVE_WORD_JOB)
        live_keep_job(l, t, &w->job);
    else if (w->kind == LIVE_WORD_INCIDENT)
        live_keep_incident(l, t, &w->incident, now_ms);
}

void live_on_line(struct live *l, struct str line)
{
    struct str sender, rest;
    int32_t tenant;
    struct live_word word;
    int64_t now_ms = clock_steady_ms(l->server->setup.clock);
    if (!live_line_read(line, &sender, &tenant, &rest))
        return;
    pthread_mutex_lock(&l->lock);
    struct live_tenant *t = live_tenant_get(l, tenant);
    while (live_line_next(&rest, &word))
        live_take_word(l, t, sender, &word, now_ms);
    pthread_mutex_unlock(&l->lock);
}

/* ---- counts ---- */

struct live_counts live_counts_here(const struct live *l, const struct live_tenant *t)
{
    const struct api_setup *setup = &l->server->setup;
    struct live_counts c = { .running = -1, .due = -1 };
    memcpy(c.v, t->own, sizeof c.v);
    if (setup->tenant_load)
        setup->tenant_load(setup->context, t->number, &c.running, &c.due);
    return c;
}

/* One node counts the due tasks for all; while the leader changes, two may. */
struct live_counts live_counts_all(const struct live *l, const struct live_tenant *t, int64_t now_ms)
{
    struct live_counts all = live_counts_here(l, t);
    for (int i = 0; i < LIVE_COUNTS; i++)
        all.v[i] += t->elsewhere[i];
    for (size_t i = 0; i < t->sender_count; i++) {
        const struct live_sender *s = &t->senders[i];
        if (now_ms - s->at_ms > LIVE_SENDER_STALE_MS)
            continue;
        if (s->counts.running > 0)
            all.running = max_of(all.running, (int64_t)0) + s->counts.running;
        all.due = max_of(all.due, s->counts.due);
    }
    return all;
}
