#include "api/live/live_message.h"

#include <inttypes.h>

#include "base/base64.h"
#include "base/json/jsonw.h"
#include "base/rfc3339.h"

enum { ID_TEXT = 22, FIELDS_MAX = 8 };

static const char *const live_count_names[LIVE_COUNTS] = {
#define X(id, name) [LIVE_##id] = name,
    LIVE_COUNT_MAP(X)
#undef X
};

/* ---- for readers ---- */

static struct jw live_event_begin(struct buf *out, const char *event)
{
    struct jw w;
    buf_printf(out, "event: %s\ndata: ", event);
    jw_init(&w, out);
    jw_object(&w);
    return w;
}

static void live_event_end(struct jw *w)
{
    jw_object_end(w);
    buf_char(w->b, '\n');
}

static void live_kv_known(struct jw *w, const char *name, int64_t v)
{
    jw_key(w, name);
    if (v < 0)
        jw_null(w);
    else
        jw_i64(w, v);
}

/* On one line and not too long: a text that was cut ends with "…". */
static void live_short(struct buf *out, struct str text, size_t max)
{
    struct str cut = str_utf8_cut(text, max);
    buf_init(out, LIVE_CUT_MAX);
    buf_plain(out, cut);
    if (cut.n < text.n)
        buf_text(out, "…");
}

static void live_kv_short(struct jw *w, const char *name, struct str text, size_t max)
{
    cleanup_with(buf_release) struct buf plain;
    live_short(&plain, text, max);
    jw_kv_str_or_null(w, name, buf_str(&plain));
}

void live_write_task(struct buf *out, const struct live_task *t)
{
    struct jw w = live_event_begin(out, "task");
    jw_kv_uuid(&w, "id", t->id);
    jw_kv_uuid(&w, "parent_id", t->parent);
    live_kv_short(&w, "name", t->name, LIVE_NAME_MAX);
    jw_kv_str_or_null(&w, "queue", t->queue);
    jw_kv_cstr(&w, "status", task_state_name(t->state));
    jw_kv_i64(&w, "attempt", t->attempt);
    live_kv_short(&w, "error", t->error, LIVE_ERROR_MAX);
    jw_kv_i64_or_null(&w, "version", t->version);
    jw_kv_time(&w, "at", t->at_ms);
    live_event_end(&w);
}

void live_write_job(struct buf *out, const struct live_job *j)
{
    struct jw w = live_event_begin(out, "job");
    jw_kv_uuid(&w, "id", j->id);
    jw_kv_cstr(&w, "kind", j->redrive ? "redrive" : "bulk");
    jw_kv_cstr(&w, "action", action_name(j->action));
    jw_kv_cstr(&w, "state", job_state_name(j->state));
    jw_kv_i64(&w, "total", j->total);
    jw_kv_bool(&w, "total_exact", j->total_exact);
    jw_kv_i64(&w, "done", j->done);
    jw_kv_i64(&w, "failed", j->failed);
    live_event_end(&w);
}

void live_write_incident(struct buf *out, const struct live_incident *i)
{
    struct jw w = live_event_begin(out, "incident");
    jw_kv_uuid(&w, "id", i->id);
    jw_kv_uuid(&w, "setting", i->setting);
    jw_kv_cstr(&w, "kind", incident_kind_names[i->kind]);
    jw_kv_str(&w, "cause", i->cause);
    jw_kv_cstr(&w, "state", i->open ? "OPEN" : "CLOSED");
    jw_kv_cstr(&w, "change", incident_change_names[i->change]);
    jw_kv_i64(&w, "count", i->count);
    jw_kv_time(&w, "at", i->at_ms);
    live_event_end(&w);
}

void live_write_node(struct buf *out, const struct live_node *n)
{
    struct jw w = live_event_begin(out, "node");
    jw_kv_uuid(&w, "id", n->id);
    jw_kv_str(&w, "name", n->name);
    jw_kv_str(&w, "state", n->state);
    jw_kv_time(&w, "at", n->at_ms);
    live_event_end(&w);
}

void live_write_counts(struct buf *out, const struct live_counts *c, int64_t at_ms)
{
    struct jw w = live_event_begin(out, "counts");
    for (int i = 0; i < LIVE_COUNTS; i++)
        jw_kv_i64(&w, live_count_names[i], c->v[i]);
    live_kv_known(&w, "running", c->running);
    live_kv_known(&w, "due", c->due);
    jw_kv_time(&w, "at", at_ms);
    live_event_end(&w);
}

void live_write_folded(struct buf *out, uint64_t n)
{
    struct jw w = live_event_begin(out, "task");
    jw_key(&w, "folded");
    jw_u64(&w, n);
    live_event_end(&w);
}

void live_write_gap(struct buf *out)
{
    struct jw w = live_event_begin(out, "gap");
    jw_kv_cstr(&w, "detail", "events may be missing before this one; read what you show anew");
    live_event_end(&w);
}

void live_write_end(struct buf *out, const char *reason, const char *detail)
{
    struct jw w = live_event_begin(out, "end");
    jw_kv_cstr(&w, "reason", reason);
    jw_kv_cstr(&w, "detail", detail);
    live_event_end(&w);
}

struct live_job live_job_of(const struct job *j)
{
    int64_t seen = j->done + j->failed; /* as job_write */
    return (struct live_job){ .id = j->id,
                              .state = j->state,
                              .action = j->action,
                              .redrive = j->redrive,
                              .total = max_of(j->total, seen),
                              .total_exact = j->total_exact && (seen <= j->total || j->finished_ms),
                              .done = j->done,
                              .failed = j->failed };
}

struct live_incident live_incident_of(const struct incident *i, enum incident_change change, int64_t at_ms)
{
    return (struct live_incident){ .id = i->id,
                                   .setting = i->setting,
                                   .kind = (enum incident_kind)i->kind,
                                   .change = change,
                                   .open = incident_is_open(i),
                                   .count = i->count,
                                   .at_ms = at_ms,
                                   .cause = i->cause };
}

/* ---- lines for other nodes ---- */

static void live_line_id(struct buf *line, struct uuid id)
{
    char text[ID_TEXT + 2];
    if (!uuid_is_nil(id))
        buf_add(line, (struct str){ text, base64_write(id.b, sizeof id.b, text) });
}

void live_line_begin(struct buf *line, const char sender[LIVE_NODE_NAME + 1], int32_t tenant)
{
    buf_printf(line, "1 %s %" PRId32, sender, tenant);
}

void live_line_counts(struct buf *line, const struct live_counts *c)
{
    buf_text(line, " c");
    for (int i = 0; i < LIVE_COUNTS; i++)
        buf_printf(line, ":%" PRId64, c->v[i]);
    buf_printf(line, ":%" PRId64 ":%" PRId64, c->running, c->due);
}

void live_line_task(struct buf *line, const struct live_task *t)
{
    buf_text(line, " t:");
    live_line_id(line, t->id);
    buf_char(line, ':');
    live_line_id(line, t->parent);
    buf_printf(line, ":%s:%d:%" PRId64 ":%" PRId64 ":" STR_FMT, task_state_name(t->state), t->attempt, t->version,
               t->at_ms, STR_ARG(t->queue));
}

static void live_line_short(struct buf *line, struct str text, size_t max)
{
    cleanup_with(buf_release) struct buf plain;
    char out[(LIVE_CUT_MAX * 4 + 2) / 3];
    live_short(&plain, text, max);
    buf_add(line, (struct str){ out, base64_write(buf_str(&plain).p, plain.n, out) });
}

void live_line_details(struct buf *line, const struct live_task *t)
{
    if (!t->name.n && !t->error.n)
        return;
    buf_text(line, " d:");
    live_line_short(line, t->name, LIVE_NAME_MAX);
    buf_char(line, ':');
    live_line_short(line, t->error, LIVE_ERROR_MAX);
}

void live_line_more(struct buf *line, uint64_t n)
{
    buf_printf(line, " m:%" PRIu64, n);
}

void live_line_watch(struct buf *line)
{
    buf_text(line, " w:");
}

void live_line_job(struct buf *line, const struct live_job *j)
{
    buf_text(line, " j:");
    live_line_id(line, j->id);
    buf_printf(line, ":%s:%s:%d:%" PRId64 ":%d:%" PRId64 ":%" PRId64, job_state_name(j->state), action_name(j->action),
               j->redrive, j->total, j->total_exact, j->done, j->failed);
}

void live_line_incident(struct buf *line, const struct live_incident *i)
{
    buf_text(line, " i:");
    live_line_id(line, i->id);
    buf_char(line, ':');
    live_line_id(line, i->setting);
    buf_printf(line, ":%s:%s:%d:%" PRId64 ":%" PRId64 ":" STR_FMT, incident_kind_names[i->kind],
               incident_change_names[i->change], i->open, i->count, i->at_ms, STR_ARG(i->cause));
}

/* ---- lines of other nodes ---- */

static bool live_read_id(struct str text, struct uuid *ret)
{
    *ret = (struct uuid){ 0 };
    return text.n == 0 || (text.n == ID_TEXT && base64_read_exact(text, ret->b) == sizeof ret->b);
}

static bool live_read_job_state(struct str text, enum job_state *ret)
{
    for (int i = JOB_RUNNING; i <= JOB_CANCELLED; i++) {
        *ret = (enum job_state)i;
        if (str_eq(text, str_from(job_state_name(*ret))))
            return true;
    }
    return false;
}

static bool live_read_counts(const struct str *v, size_t n, struct live_counts *ret)
{
    bool ok = n == LIVE_COUNTS + 2;
    for (int i = 0; ok && i < LIVE_COUNTS; i++)
        ok = str_to_i64(v[i], 0, INT64_MAX, &ret->v[i]);
    return ok && str_to_i64(v[LIVE_COUNTS], -1, INT64_MAX, &ret->running) &&
           str_to_i64(v[LIVE_COUNTS + 1], -1, INT64_MAX, &ret->due);
}

static bool live_read_task(const struct str *v, size_t n, struct live_task *ret)
{
    int64_t attempt;
    if (n != 7 || !v[0].n || !live_read_id(v[0], &ret->id) || !live_read_id(v[1], &ret->parent) ||
        !task_state_parse(v[2], &ret->state) || !str_to_i64(v[3], 0, INT32_MAX, &attempt) ||
        !str_to_i64(v[4], 0, INT64_MAX, &ret->version) || !str_to_i64(v[5], 0, YEAR_9999_END_MS, &ret->at_ms))
        return false;
    ret->attempt = (int)attempt;
    ret->queue = v[6];
    ret->name = ret->error = S("");
    return true;
}

static bool live_read_job(const struct str *v, size_t n, struct live_job *ret)
{
    int64_t redrive, exact;
    if (n != 8 || !v[0].n || !live_read_id(v[0], &ret->id) || !live_read_job_state(v[1], &ret->state) ||
        !action_parse(v[2], &ret->action) || !str_to_i64(v[3], 0, 1, &redrive) ||
        !str_to_i64(v[4], 0, INT64_MAX, &ret->total) || !str_to_i64(v[5], 0, 1, &exact) ||
        !str_to_i64(v[6], 0, INT64_MAX, &ret->done) || !str_to_i64(v[7], 0, INT64_MAX, &ret->failed))
        return false;
    ret->redrive = redrive;
    ret->total_exact = exact;
    return true;
}

static bool live_read_name(struct str text, const char *const *names, int *ret)
{
    for (*ret = 0; names[*ret]; ++*ret)
        if (str_eq(text, str_from(names[*ret])))
            return true;
    return false;
}

static bool live_read_incident(const struct str *v, size_t n, struct live_incident *ret)
{
    int kind, change;
    int64_t open;
    if (n != 8 || !v[0].n || !live_read_id(v[0], &ret->id) || !live_read_id(v[1], &ret->setting) ||
        !live_read_name(v[2], incident_kind_names, &kind) || !live_read_name(v[3], incident_change_names, &change) ||
        !str_to_i64(v[4], 0, 1, &open) || !str_to_i64(v[5], 0, INT64_MAX, &ret->count) ||
        !str_to_i64(v[6], 0, YEAR_9999_END_MS, &ret->at_ms))
        return false;
    ret->kind = (enum incident_kind)kind;
    ret->change = (enum incident_change)change;
    ret->open = open;
    ret->cause = v[7];
    return true;
}

/* The last field may hold ':'. A field may be empty. */
static size_t live_split(struct str word, struct str v[FIELDS_MAX], size_t max)
{
    size_t n = 0, from = 0;
    for (; n + 1 < max && str_find(word, ':', from) < word.n; n++) {
        size_t colon = str_find(word, ':', from);
        v[n] = str_sub(word, from, colon);
        from = colon + 1;
    }
    v[n++] = str_sub(word, from, word.n);
    return n;
}

static bool live_read_word(struct str word, struct live_word *ret)
{
    struct str v[FIELDS_MAX];
    int64_t more;
    if (word.n < 2 || word.p[1] != ':')
        return false;
    char letter = word.p[0];
    size_t n = live_split(str_sub(word, 2, word.n), v, letter == 't' ? 7 : FIELDS_MAX);
    switch (letter) {
    case 'c': ret->kind = LIVE_WORD_COUNTS; return live_read_counts(v, n, &ret->counts);
    case 't': ret->kind = LIVE_WORD_TASK; return live_read_task(v, n, &ret->task);
    case 'm':
        ret->kind = LIVE_WORD_MORE;
        if (n != 1 || !str_to_i64(v[0], 1, INT64_MAX, &more))
            return false;
        ret->more = (uint64_t)more;
        return true;
    case 'w': ret->kind = LIVE_WORD_WATCH; return true;
    case 'j': ret->kind = LIVE_WORD_JOB; return live_read_job(v, n, &ret->job);
    case 'i': ret->kind = LIVE_WORD_INCIDENT; return live_read_incident(v, n, &ret->incident);
    default: return false;
    }
}

static struct str live_read_text(struct str text, char out[LIVE_CUT_MAX])
{
    return (struct str){ out, text.n * 3 / 4 <= LIVE_CUT_MAX ? base64_read_exact(text, out) : 0 };
}

/* A node of an older version does not tell them. */
static void live_read_details(struct str *rest, struct live_word *ret)
{
    struct str after = *rest, word, v[FIELDS_MAX];
    if (!str_cut(&after, ' ', &word) || !str_starts(word, S("d:")))
        return;
    *rest = after;
    if (live_split(str_sub(word, 2, word.n), v, FIELDS_MAX) != 2)
        return;
    ret->task.name = live_read_text(v[0], ret->name);
    ret->task.error = live_read_text(v[1], ret->error);
}

bool live_line_read(struct str line, struct str *ret_sender, int32_t *ret_tenant, struct str *rest)
{
    struct str version, sender, tenant;
    int64_t number;
    *rest = line;
    if (!str_cut(rest, ' ', &version) || !str_eq(version, S("1")) || !str_cut(rest, ' ', &sender) ||
        sender.n != LIVE_NODE_NAME || !str_cut(rest, ' ', &tenant) || !str_to_i64(tenant, 1, INT32_MAX, &number))
        return false;
    *ret_sender = sender;
    *ret_tenant = (int32_t)number;
    return true;
}

bool live_line_next(struct str *rest, struct live_word *ret)
{
    struct str word;
    bool ok = false;
    while (!ok && str_cut(rest, ' ', &word))
        ok = live_read_word(word, ret);
    if (ok && ret->kind == LIVE_WORD_TASK)
        live_read_details(rest, ret);
    return ok;
}
