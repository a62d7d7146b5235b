#include "api/task/target_merge.h"

#include "api/task/secret_headers.h"
#include "base/json/json.h"

enum { MERGED_MAX = 32 << 20 };

static bool target_merge_is_object(struct str text)
{
    return text.n && text.p[0] == '{';
}

/* The member of an object, as text; empty: none. */
static struct str target_merge_find(struct str object, struct str wanted, bool any_case)
{
    struct json_cursor c = { .text = object };
    struct str name, value;
    while (json_next(&c, &name, &value))
        if (any_case ? str_eq_nocase(name, wanted) : str_eq(name, wanted))
            return value;
    return S("");
}

static void target_merge_write(struct buf *out, struct str name, struct str value)
{
    bool first = out->n && out->p[out->n - 1] == '{';
    buf_printf(out, "%s\"" STR_FMT "\":", first ? "" : ",", STR_ARG(name));
    buf_add(out, value);
}

/* A member that the edit has. */
static void target_merge_write_given(struct buf *out, struct str name, struct str value)
{
    if (!str_eq(value, S("null")))
        target_merge_write(out, name, value);
}

/* A header of the present object: as the edit has it, or as it is. */
static void target_merge_header(struct str edit, struct str name, struct str value, struct buf *out)
{
    struct json_cursor c = { .text = edit };
    struct str own, given;
    while (json_next(&c, &own, &given))
        if (str_eq_nocase(own, name)) {
            target_merge_write_given(out, own, given);
            return;
        }
    target_merge_write(out, name, value);
}

/* The headers of the edit that the present object does not have. The others are written at their place, so that an edit
 * which changes nothing makes the same text. */
static void target_merge_added(struct str current, struct str edit, struct buf *out)
{
    struct json_cursor c = { .text = edit };
    struct str name, value;
    while (json_next(&c, &name, &value)) {
        bool is_written = target_merge_find(current, name, true).n && target_merge_find(edit, name, true).p == value.p;
        if (!is_written)
            target_merge_write_given(out, name, value);
    }
}

static void target_merge_headers(struct str current, struct str edit, struct buf *out)
{
    struct json_cursor c = { .text = current };
    struct str name, value;
    buf_char(out, '{');
    while (json_next(&c, &name, &value))
        target_merge_header(edit, name, value, out);
    target_merge_added(current, edit, out);
    buf_char(out, '}');
}

/* What the edit makes of a member; empty: it says nothing of it. */
static struct str target_merge_given(struct str current, struct str edit, struct str name, struct buf *headers)
{
    struct str given = target_merge_find(edit, name, false), old;
    if (!str_eq(name, S("headers")) || !target_merge_is_object(given))
        return given;
    old = target_merge_find(current, name, false);
    buf_reset(headers);
    target_merge_headers(target_merge_is_object(old) ? old : S("{}"), given, headers);
    return buf_str(headers);
}

static void target_merge_members(struct str current, struct str edit, struct buf *headers, struct buf *out)
{
    struct json_cursor c = { .text = current }, added = { .text = edit };
    struct str name, value;
    buf_char(out, '{');
    while (json_next(&c, &name, &value)) {
        struct str given = target_merge_given(current, edit, name, headers);
        if (given.n)
            target_merge_write_given(out, name, given);
        else
            target_merge_write(out, name, value);
    }
    while (json_next(&added, &name, &value))
        if (!target_merge_find(current, name, false).n)
            target_merge_write_given(out, name, target_merge_given(current, edit, name, headers));
    buf_char(out, '}');
}

enum err target_merge(struct str current, struct str edit, struct arena *a, struct str *ret, struct error *e)
{
    cleanup_with(buf_release) struct buf shown, headers, out;
    struct jw w;
    buf_init(&shown, MERGED_MAX);
    buf_init(&headers, MERGED_MAX);
    buf_init(&out, MERGED_MAX);
    jw_init(&w, &shown);
    secret_headers_hide(&w, current.n ? current : S("{}"));
    target_merge_members(buf_str(&shown), edit, &headers, &out);
    bool full = shown.full || headers.full || out.full;
    return !full && arena_str(a, buf_str(&out), ret) ? ERR_OK : error_set(e, ERR_LIMIT, "the body is too large");
}

enum err target_unbind(struct str current, json_t *edit, struct arena *a, struct str *ret, struct error *e)
{
    struct json_cursor c = { .text = current };
    struct str name, value;
    cleanup_with(buf_release) struct buf out;
    bool by_hash = json_object_get(edit, "definition"), by_name = json_object_get(edit, "workflow");
    if (!by_hash && !by_name && !json_object_get(edit, "version"))
        return ERR_OK;
    buf_init(&out, MERGED_MAX);
    buf_char(&out, '{');
    while (json_next(&c, &name, &value)) {
        bool is_bound = str_eq(name, S("definition")) || str_eq(name, S("version"));
        if (!is_bound && !(by_hash && str_eq(name, S("workflow"))))
            target_merge_write(&out, name, value);
    }
    buf_char(&out, '}');
    return !out.full && arena_str(a, buf_str(&out), ret) ? ERR_OK : error_set(e, ERR_LIMIT, "the body is too large");
}
