#include "base/sentence.h"

#include <stdio.h>

#include "base/duration.h"

void suggest_init(struct suggest *s, struct str given)
{
    *s = (struct suggest){ .given = given, .distance = SIZE_MAX };
}

/* Allows one error for each two characters given, at least one and at most three: "cuont" suggests "count", "tz" does
 * not suggest "at". */
void suggest_offer(struct suggest *s, struct str known)
{
    size_t allowed = max_of((size_t)1, min_of((size_t)3, s->given.n / 2));
    size_t distance = str_distance(s->given, known);
    if (distance <= allowed && distance < known.n && distance < s->distance) {
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
