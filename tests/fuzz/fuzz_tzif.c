/* Any bytes as a zone file: if they are accepted, the spans are in order and wall-clock times convert back to their
 * instants. */
#include <assert.h>
#include <stdlib.h>

#include "core/time/tz.h"

enum { EDGES_MAX = 300 };
#define FAR (INT64_C(1) << 60) /* beyond it, sums are capped at the ends of int64_t */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_instant(const struct tz *z, int64_t instant)
{
    struct tz_span s = tz_span_at(z, instant);
    assert(s.from < s.until && s.from <= instant && (instant < s.until || s.until == INT64_MAX));
    assert(strlen(s.abbreviation) < 64);
    int64_t local = tz_local(z, instant);
    assert(local == instant + s.offset_s);
    struct tz_instants i = tz_instants_of(z, local);
    assert(i.kind != TZ_GAP && i.first <= instant && instant <= i.last);
    assert((i.kind == TZ_UNIQUE) == (i.first == i.last));
    assert(tz_local(z, i.first) == local && tz_local(z, i.last) == local);
}

static void check_local(const struct tz *z, int64_t local)
{
    struct tz_instants i = tz_instants_of(z, local);
    if (i.kind == TZ_GAP)
        assert(i.first == i.last && tz_local(z, i.first - 1) < local && tz_local(z, i.first) > local);
    else
        assert(tz_local(z, i.first) == local && tz_local(z, i.last) == local);
}

static void check_edge(const struct tz *z, const struct tz_span *s)
{
    static const int64_t near[] = { -86400, -3600, -1, 0, 1, 3600, 86400 };
    for (size_t i = 0; i < array_count(near); i++) {
        check_instant(z, s->from + near[i]);
        check_local(z, s->from + s->offset_before_s + near[i]);
        check_local(z, s->from + s->offset_s + near[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error e = { 0 };
    struct tz *z = NULL;
    enum err rc = tz_parse(S("Fuzz"), (struct str){ (const char *)data, size }, &z, &e);
    assert((rc == ERR_OK) == (z != NULL) && (rc == ERR_OK) == (e.text[0] == '\0'));
    if (rc)
        return 0;
    struct tz_span s = tz_span_at(z, INT64_MIN);
    assert(s.from == INT64_MIN);
    for (int i = 0; i < EDGES_MAX && s.until != INT64_MAX; i++) {
        int64_t edge = s.until;
        s = tz_span_at(z, edge);
        assert(s.from == edge && edge > -FAR && edge < FAR);
        check_edge(z, &s);
    }
    assert(tz_span_at(z, INT64_MAX).until == INT64_MAX);
    tz_instants_of(z, INT64_MIN);
    tz_instants_of(z, INT64_MAX);
    tz_unref(z);
    return 0;
}
