#include "base/sentence.h"

#include <stdio.h>

#include "base/duration.h"

void suggest_init(struct suggest *s, struct str given)
{
    *s = (struct suggest){ .given = given, .distance = SIZE_MAX };
}

/* "no-count" and "x.count" mean "count". */
static bool suggest_ends_with(struct str given, struct str known)
{
    size_t from = given.n > known.n ? given.n - known.n : 0;
    return from > 1 && strchr("-._", given.p[from - 1]) && str_eq_nocase(str_sub(given, from, given.n), known);
}

/* Allows one error for each three characters, of the longer name if both begin alike, else of the shorter one: "cuont"
 * suggests "count", but "timezone" does not suggest "timeout", nor "wat" "at". A wrong suggestion is worse than none. */
bool suggest_is_close(struct str given, struct str known, size_t *ret_distance)
{
    if (!given.n || !known.n)
        return false;
    if (suggest_ends_with(given, known)) {
        *ret_distance = given.n - known.n;
        return true;
    }
    bool alike = ascii_lower(given.p[0]) == ascii_lower(known.p[0]);
    size_t room = alike ? max_of(given.n, known.n) : min_of(given.n, known.n), distance = str_distance(given, known);
    if (distance > room / 3 || distance >= known.n)
        return false;
    *ret_distance = distance;
    return true;
}

void suggest_offer(struct suggest *s, struct str known)
{
    size_t distance;
    if (suggest_is_close(s->given, known, &distance) && distance < s->distance) {
        s->closest = known;
        s->distance = distance;
    }
}

static void range_bound_text(struct range r, int64_t bound, char out[DURATION_TEXT])
{
    if (r.is_duration)
        duration_format(bound, out);
    else
        snprintf(out, DURATION_TEXT, "%lld", (long long)bound);
}

static void range_write(struct range r, const char *before, const char *amid, char out[RANGE_TEXT])
{
    char min[DURATION_TEXT], max[DURATION_TEXT];
    range_bound_text(r, r.min, min);
    range_bound_text(r, r.max, max);
    if (r.min == r.max)
        snprintf(out, RANGE_TEXT, "exactly %s", min);
    else if (r.min > r.least && r.max < r.most)
        snprintf(out, RANGE_TEXT, "%s%s%s%s", before, min, amid, max);
    else if (r.min > r.least)
        snprintf(out, RANGE_TEXT, "at least %s", min);
    else if (r.max < r.most)
        snprintf(out, RANGE_TEXT, "at most %s", max);
    else
        out[0] = '\0';
}

void range_text(struct range r, char out[RANGE_TEXT])
{
    range_write(r, "between ", " and ", out);
}

void range_short_text(struct range r, char out[RANGE_TEXT])
{
    range_write(r, "", " to ", out);
}

void quote_text(struct str v, char out[QUOTE_TEXT])
{
    const struct str mark = S("…");
    struct str shown = v;
    if (v.n > QUOTE_TEXT - 3) /* two quotes and the NUL */
        shown = str_utf8_cut(v, QUOTE_TEXT - 3 - mark.n);
    size_t n = 0;
    out[n++] = '\'';
    for (size_t i = 0; i < shown.n;) {
        size_t len = str_utf8_at(shown, i);
        bool plain = len > 1 || (len == 1 && (unsigned char)shown.p[i] >= ' ' && shown.p[i] != 0x7F);
        if (plain)
            memcpy(out + n, shown.p + i, len);
        else
            out[n] = '?';
        n += plain ? len : 1;
        i += max_of(len, (size_t)1);
    }
    snprintf(out + n, QUOTE_TEXT - n, "%s'", shown.n < v.n ? mark.p : "");
}
