#include "api/server/negotiate.h"

/* "0", "0.0" and so on. */
static bool negotiate_q_is_zero(struct str q)
{
    for (size_t i = 0; i < q.n; i++)
        if (q.p[i] != '0' && q.p[i] != '.')
            return false;
    return q.n > 0;
}

/* Cuts an element of the list: its name, and whether its q refuses it. */
static bool negotiate_next(struct str *rest, struct str *ret_name, bool *ret_refused)
{
    struct str element, parameter;
    if (!str_cut(rest, ',', &element))
        return false;
    *ret_name = (struct str){ 0 };
    *ret_refused = false;
    if (!str_cut(&element, ';', ret_name))
        return true;
    *ret_name = str_trim(*ret_name);
    while (str_cut(&element, ';', &parameter)) {
        parameter = str_trim(parameter);
        if (parameter.n > 2 && str_eq_nocase(str_sub(parameter, 0, 2), S("q=")))
            *ret_refused = negotiate_q_is_zero(str_sub(parameter, 2, parameter.n));
    }
    return true;
}

/* How closely a range fits a name: 3 the name itself, 2 its type with a '*' behind it, 1 everything, 0 not at all. */
static int negotiate_fit(struct str range, struct str name)
{
    size_t slash = str_find(name, '/', 0);
    if (str_eq_nocase(range, name))
        return 3;
    if (str_eq(range, S("*")) || str_eq(range, S("*/*")))
        return 1;
    bool is_type = slash < name.n && range.n == slash + 2 && range.p[range.n - 1] == '*';
    return is_type && str_eq_nocase(str_sub(range, 0, slash + 1), str_sub(name, 0, slash + 1)) ? 2 : 0;
}

/* The element that fits best decides. */
static bool negotiate_allows(struct str list, struct str name)
{
    struct str rest = list, range;
    bool refused, allows = false;
    int best = 0;
    while (negotiate_next(&rest, &range, &refused)) {
        int fit = negotiate_fit(range, name);
        if (fit > best) {
            best = fit;
            allows = !refused;
        }
    }
    return allows;
}

bool accept_allows(struct str accept, struct str type)
{
    return str_trim(accept).n == 0 || negotiate_allows(accept, type);
}

bool accept_names(struct str accept, struct str type)
{
    struct str rest = accept, range;
    bool refused;
    while (negotiate_next(&rest, &range, &refused))
        if (!refused && str_eq_nocase(range, type))
            return true;
    return false;
}

bool accept_encoding_allows_gzip(struct str accept_encoding)
{
    return negotiate_allows(accept_encoding, S("gzip"));
}

/* Without W/, quotes and the mark of the gzip form. */
static struct str negotiate_tag(struct str tag)
{
    static const struct str mark = { "-gzip", 5 };
    tag = str_trim(tag);
    if (str_starts(tag, S("W/")))
        tag = str_sub(tag, 2, tag.n);
    if (tag.n < 2 || tag.p[0] != '"' || tag.p[tag.n - 1] != '"')
        return (struct str){ 0 };
    tag = str_sub(tag, 1, tag.n - 1);
    bool is_gzip = tag.n > mark.n && str_eq(str_sub(tag, tag.n - mark.n, tag.n), mark);
    return is_gzip ? str_sub(tag, 0, tag.n - mark.n) : tag;
}

bool if_none_match_has(struct str if_none_match, struct str etag)
{
    struct str rest = if_none_match, piece, wanted = negotiate_tag(etag);
    while (str_cut(&rest, ',', &piece)) {
        struct str tag = negotiate_tag(piece);
        if (str_eq(str_trim(piece), S("*")) || (tag.n && str_eq(tag, wanted)))
            return true;
    }
    return false;
}
