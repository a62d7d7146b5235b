#include "api/server/query.h"

#include <assert.h>

#include "base/rfc3339.h"
#include "base/sentence.h"
#include "core/task/task.h"

/* The byte that the escape at `at` stands for; -1: it is broken. */
static int query_escape_at(struct str raw, size_t at)
{
    if (at + 2 >= raw.n)
        return -1;
    int high = hex_value(raw.p[at + 1]), low = hex_value(raw.p[at + 2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

enum err url_decode(struct str raw, bool is_query, struct arena *a, struct str *ret, struct error *e)
{
    char *out = arena_alloc(a, raw.n + 1);
    if (!out)
        return error_set(e, ERR_LIMIT, "is too long");
    size_t n = 0;
    for (size_t i = 0; i < raw.n; i++) {
        int c = (unsigned char)raw.p[i];
        if (c == '%') {
            c = query_escape_at(raw, i);
            if (c < 0)
                return error_set(e, ERR_INVALID, "holds a broken escape: '%%' and two hexadecimal digits are expected");
            i += 2;
        } else if (c == '+' && is_query) {
            c = ' ';
        }
        if (c == '\0')
            return error_set(e, ERR_INVALID, "holds a NUL character");
        out[n++] = (char)c;
    }
    out[n] = '\0';
    if (!str_is_utf8((struct str){ out, n }))
        return error_set(e, ERR_INVALID, "is not UTF-8");
    *ret = (struct str){ out, n };
    return ERR_OK;
}

static const char *const query_state_names[] = { "SCHEDULED", "BLOCKED", "PAUSED",  "RUNNING", "COMPLETED", "FAILED",
                                                 "CANCELLED", "SKIPPED", "EXPIRED", "ACTIVE",  NULL };
static const char *const query_result_names[] = { "COMPLETED", "FAILED", "LOST", "CANCELLED", NULL };

static bool query_results_parse(struct str text, unsigned *ret)
{
    for (unsigned i = 0; query_result_names[i]; i++) {
        if (str_eq_nocase(text, str_from(query_result_names[i]))) {
            *ret = 1U << i;
            return true;
        }
    }
    return false;
}

/* Lists the values that there are, and the one that is meant perhaps. */
static enum err query_refuse_value(const char *field, struct str value, const char *const *names, struct error *e)
{
    cleanup_with(buf_release) struct buf known;
    struct suggest near;
    char quoted[QUOTE_TEXT];
    buf_init(&known, sizeof *e);
    suggest_init(&near, value);
    for (int i = 0; names[i]; i++) {
        buf_printf(&known, "%s%s", known.n ? ", " : "", names[i]);
        suggest_offer(&near, str_from(names[i]));
    }
    quote_text(value, quoted);
    if (near.closest.p)
        return error_field(e, field, "must be one of %s, not %s; did you mean '" STR_FMT "'?", buf_cstr(&known), quoted,
                           STR_ARG(near.closest));
    return error_field(e, field, "must be one of %s, not %s", buf_cstr(&known), quoted);
}

/* "FAILED,LOST": one bit each. */
static enum err query_read_set(const struct query_field *f, struct str value, unsigned *ret, struct error *e)
{
    unsigned set = 0;
    struct str rest = value, piece;
    while (str_cut(&rest, ',', &piece)) {
        unsigned named = 0;
        bool known = f->kind == QUERY_STATES ? task_states_parse(str_trim(piece), &named)
                                             : query_results_parse(str_trim(piece), &named);
        if (!known) {
            return query_refuse_value(f->name, str_trim(piece),
                                      f->kind == QUERY_STATES ? query_state_names : query_result_names, e);
        }
        set |= named;
    }
    if (!set)
        return error_field(e, f->name, "is empty");
    *ret = set;
    return ERR_OK;
}

static enum err query_read_choice(const struct query_field *f, struct str value, int *ret, struct error *e)
{
    for (int i = 0; f->names[i]; i++) {
        if (str_eq_nocase(value, str_from(f->names[i]))) {
            *ret = i + 1;
            return ERR_OK;
        }
    }
    return query_refuse_value(f->name, value, f->names, e);
}

static enum err query_read_i64(const struct query_field *f, struct str value, int64_t *ret, struct error *e)
{
    if (str_to_i64(value, f->min, f->max, ret))
        return ERR_OK;
    return error_field(e, f->name, "must be a number between %lld and %lld", (long long)f->min, (long long)f->max);
}

static enum err query_read_text(const struct query_field *f, struct str value, struct str *ret, struct error *e)
{
    size_t max = f->max ? (size_t)f->max : 255;
    if (value.n == 0) /* a script whose variable is not set must not get everything */
        return error_field(e, f->name, "is empty; give a value, or leave the parameter out");
    if (str_utf8_count(value) > max)
        return error_field(e, f->name, "must be at most %zu characters long", max);
    *ret = value;
    return ERR_OK;
}

static enum err query_read_time(const struct query_field *f, struct str value, int64_t *ret, struct error *e)
{
    int64_t ms;
    struct error why = { 0 };
    if (rfc3339_parse(value, &ms, &why))
        return error_field(e, f->name, "%s", why.text);
    *ret = ms;
    return ERR_OK;
}

static enum err query_read_id(const struct query_field *f, struct str value, struct uuid *ret, struct error *e)
{
    struct uuid id;
    if (!uuid_parse(value, &id) || uuid_is_nil(id))
        return error_field(e, f->name, "must be an id that the server returned, unchanged");
    *ret = id;
    return ERR_OK;
}

static enum err query_read_value(const struct query_field *f, struct str value, void *into, struct error *e)
{
    void *at = (char *)into + f->offset;
    switch (f->kind) {
    case QUERY_I64: return query_read_i64(f, value, at, e);
    case QUERY_TEXT: return query_read_text(f, value, at, e);
    case QUERY_TIME: return query_read_time(f, value, at, e);
    case QUERY_ID: return query_read_id(f, value, at, e);
    case QUERY_CHOICE: return query_read_choice(f, value, at, e);
    case QUERY_STATES:
    case QUERY_RESULTS: return query_read_set(f, value, at, e);
    }
    assert(false);
    return ERR_CORRUPT;
}

static enum err query_find_field(struct str name, const struct query_field *fields, size_t count, size_t *ret,
                                 struct error *e)
{
    struct suggest s;
    suggest_init(&s, name);
    for (size_t i = 0; i < count; i++) {
        if (str_eq(name, str_from(fields[i].name))) {
            *ret = i;
            return ERR_OK;
        }
        suggest_offer(&s, str_from(fields[i].name));
    }
    for (size_t i = 0; i < count; i++)
        if (fields[i].also && str_eq(name, str_from(fields[i].also)))
            s.closest = str_from(fields[i].name);
    char quoted[QUOTE_TEXT];
    quote_text(name, quoted);
    if (s.closest.p)
        return error_field(e, "query", "has no parameter %s; did you mean '" STR_FMT "'?", quoted, STR_ARG(s.closest));
    return error_field(e, "query", "has no parameter %s", quoted);
}

enum err query_read(struct str query, const struct query_field *fields, size_t count, void *into, struct arena *a,
                    struct error *e)
{
    assert(count <= QUERY_FIELDS_MAX);
    uint32_t seen = 0;
    struct str rest = query, piece;
    while (str_cut(&rest, '&', &piece)) {
        if (piece.n == 0)
            continue;
        size_t eq = str_find(piece, '=', 0), at = 0;
        struct str name, value;
        if (url_decode(str_sub(piece, 0, eq), true, a, &name, e) ||
            url_decode(str_sub(piece, min_of(eq + 1, piece.n), piece.n), true, a, &value, e))
            return error_in(e, "query");
        if (query_find_field(name, fields, count, &at, e))
            return e->code;
        if (seen & (uint32_t)1 << at)
            return error_field(e, fields[at].name, "is given twice");
        seen |= (uint32_t)1 << at;
        if (query_read_value(&fields[at], value, into, e))
            return ERR_INVALID;
    }
    return ERR_OK;
}

enum err query_check_range(int64_t from_ms, int64_t to_ms, struct error *e)
{
    return from_ms < to_ms ? ERR_OK : error_field(e, "to", "must be after 'from'");
}

bool query_is_short_page(struct str query)
{
    struct str rest = query, parameter;
    while (str_cut(&rest, '&', &parameter)) {
        struct str value = parameter, name;
        int64_t limit;
        (void)str_cut(&value, '=', &name);
        bool fits = str_eq(name, S("limit")) && str_to_i64(value, 1, QUERY_SHORT_PAGE, &limit);
        if (!fits && !str_eq(name, S("cursor")))
            return false;
    }
    return true;
}
