#include "cli/json_set.h"

#include "base/json/json.h"
#include "base/sentence.h"

enum { NAME_BYTES = 100 };

static bool json_set_name_is_valid(struct str name)
{
    return name.n <= NAME_BYTES && str_is_plain(name, "_-:");
}

static enum err json_set_check(struct str path, struct error *e)
{
    struct str rest = path, name;
    char shown[QUOTE_TEXT];
    quote_text(path, shown);
    if (!path.n || path.p[path.n - 1] == '.')
        return error_set(e, ERR_INVALID, "%s is not the name of a field, such as priority or retry.backoff", shown);
    while (str_cut(&rest, '.', &name))
        if (!json_set_name_is_valid(name))
            return error_set(e, ERR_INVALID, "%s is not the name of a field, such as priority or retry.backoff", shown);
    return ERR_OK;
}

static void json_set_add_key(struct buf *out, struct str name, bool *has_member)
{
    buf_printf(out, "%s\"" STR_FMT "\":", *has_member ? "," : "", STR_ARG(name));
    *has_member = true;
}

static bool json_set_write(struct str object, struct str path, struct str value, struct buf *out)
{
    struct json_cursor c = { .text = object };
    struct str rest = path, head, name, text;
    bool found = false, has_member = false, replaced = false, is_object = object.n && object.p[0] == '{';
    str_cut(&rest, '.', &head);
    bool is_last = head.n == path.n;
    buf_char(out, '{');
    while (is_object && json_next(&c, &name, &text)) {
        json_set_add_key(out, name, &has_member);
        bool here = str_eq(name, head);
        found = found || here;
        if (here && !is_last)
            replaced = json_set_write(text, rest, value, out);
        else
            buf_add(out, here ? value : text);
        replaced = replaced || (here && is_last);
    }
    if (!found) {
        json_set_add_key(out, head, &has_member);
        if (is_last)
            buf_add(out, value);
        else
            (void)json_set_write(S("{}"), rest, value, out);
    }
    buf_char(out, '}');
    return replaced;
}

enum err json_set(struct str object, struct str path, struct str value, bool *ret_replaced, struct buf *out,
                  struct error *e)
{
    if (json_set_check(path, e))
        return e->code;
    *ret_replaced = json_set_write(object, path, value, out);
    return ERR_OK;
}
