#include "workflow/text_place.h"

#include <stdio.h>
#include <string.h>

#include "base/json/json.h"

/* The rest of a path after its first part, if that part names this member or element. */
static bool text_path_enter(struct str path, struct str name, bool is_object, size_t index, struct str *ret)
{
    char part[24];
    if (!is_object) {
        snprintf(part, sizeof part, "[%zu]", index);
        name = str_from(part);
    } else if (path.n && path.p[0] == '.') {
        path = str_sub(path, 1, path.n);
    }
    if (!name.n || !str_starts(path, name))
        return false;
    *ret = str_sub(path, name.n, path.n);
    return !ret->n || ret->p[0] == '.' || ret->p[0] == '[';
}

/* The member or element that the path goes through; of two that fit ("a" and "a.b"), the longer one. False: none. */
static bool text_path_step(struct str *value, struct str *path, size_t *ret_at, const char *begin)
{
    struct json_cursor c = { .text = *value };
    struct str name, inner, rest, best = { 0 };
    size_t left = SIZE_MAX;
    for (size_t i = 0; json_next(&c, &name, &inner); i++) {
        if (!text_path_enter(*path, name, c.is_object, i, &rest) || rest.n >= left)
            continue;
        left = rest.n;
        best = inner;
        *ret_at = (size_t)((c.is_object ? name.p : inner.p) - begin);
    }
    if (left == SIZE_MAX)
        return false;
    *value = best;
    *path = str_sub(*path, path->n - left, path->n);
    return true;
}

struct text_place text_place_find(struct str json, struct str path)
{
    struct text_place p = { .value = json };
    while (p.at < json.n && strchr(" \t\r\n", json.p[p.at]))
        p.at++;
    while (path.n && text_path_step(&p.value, &path, &p.at, json.p))
        ;
    p.is_whole = !path.n;
    p.is_member = json.p && p.value.p != json.p + p.at;
    return p;
}

size_t text_place_line(struct str json, const struct text_place *p)
{
    size_t line = 1;
    for (size_t i = 0; i < p->at && i < json.n; i++)
        line += json.p[i] == '\n';
    return line;
}

void text_compact(struct str json, struct buf *out)
{
    bool in_text = false;
    for (size_t i = 0; i < json.n; i++) {
        if (in_text && json.p[i] == '\\' && i + 1 < json.n)
            buf_char(out, json.p[i++]);
        else if (json.p[i] == '"')
            in_text = !in_text;
        else if (!in_text && strchr(" \t\r\n", json.p[i]))
            continue;
        buf_char(out, json.p[i]);
    }
}
