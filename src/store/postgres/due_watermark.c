/* Where a claim begins to look. What was claimed leaves dead entries behind in the index of what is due, at its front; while a dump holds an
 * old snapshot nobody may clear them away, and each claim would step over all of them. So a store remembers for each lane that nothing in
 * it is due before some time, its watermark, and begins there.
 *
 * A watermark is a hint, and wrong for as long as nobody knows better. Nobody sets a due time in the past, so it stands a little behind the
 * present. Whatever this process schedules lowers it at once; what another node tells of that stands before a watermark makes the next claim
 * look at all; and so does every second, or a twentieth of the time where looking at all takes long, but every five seconds in any case: who was
 * stopped in the middle of a look took long over it too. Floors rise by what was committed, and are forgotten with the connection: another
 * server may have less. */
#include <stdlib.h>

#include "store/postgres/internal.h"

enum { BEHIND_MS = 3000, AGAIN_MS = 1000, AGAIN_MAX_MS = 5000, SHARE = 20, NS_IN_MS = 1000000 };

static const struct pg_watermark pg_watermark_unknown = { .due_ms = INT64_MIN };

void pg_watermarks_release(struct pg_watermarks *f)
{
    free(f->v);
    free(f->noted);
}

void pg_watermarks_reset(struct pg_watermarks *f)
{
    for (size_t i = 0; i < f->cap; i++)
        f->v[i] = pg_watermark_unknown;
    f->noted_count = 0;
}

/* News that come while a claim is under way must be heard by it, whose floors are kept only later. */
void pg_watermarks_begin(struct pg_watermarks *f, int64_t now_ms)
{
    if (now_ms - BEHIND_MS > atomic_load(&f->highest))
        atomic_store(&f->highest, now_ms - BEHIND_MS);
}

int64_t pg_watermark_of(struct pg_watermarks *f, int64_t lane, int64_t steady_ns)
{
    if ((size_t)lane >= f->cap)
        return INT64_MIN;
    const struct pg_watermark *at = &f->v[lane];
    bool look_at_all = at->again_ns <= steady_ns || at->notices != atomic_load(&f->notices);
    return look_at_all ? INT64_MIN : at->due_ms;
}

void pg_watermark_note(struct pg_watermarks *f, int64_t lane, const struct pg_scan *look, int64_t left_ms,
                       int64_t now_ms)
{
    if (f->noted_count == f->noted_cap) {
        f->noted_cap = f->noted_cap * 2 + 16;
        f->noted = xrealloc(f->noted, f->noted_cap * sizeof *f->noted);
    }
    struct pg_watermark watermark = (size_t)lane < f->cap ? f->v[lane] : pg_watermark_unknown;
    watermark.due_ms = min_of(left_ms, now_ms - BEHIND_MS);
    if (look->from_ms == INT64_MIN) {
        int64_t rest_ns = SHARE * (look->ended_ns - look->begun_ns);
        rest_ns = min_of(max_of(rest_ns, (int64_t)AGAIN_MS * NS_IN_MS), (int64_t)AGAIN_MAX_MS * NS_IN_MS);
        watermark.notices = look->notices;
        watermark.again_ns = look->ended_ns + rest_ns;
    }
    f->noted[f->noted_count++] = (struct pg_noted_watermark){ lane, watermark };
}

static void pg_watermark_store(struct pg_watermarks *f, const struct pg_noted_watermark *noted)
{
    size_t lane = (size_t)noted->lane;
    if (lane >= f->cap) {
        size_t cap = lane * 2 + 16;
        f->v = xrealloc(f->v, cap * sizeof *f->v);
        while (f->cap < cap)
            f->v[f->cap++] = pg_watermark_unknown;
    }
    f->v[lane] = noted->watermark;
}

void pg_watermarks_commit(struct pg_watermarks *f, const struct store_notice *own)
{
    for (size_t i = 0; i < f->noted_count; i++)
        pg_watermark_store(f, &f->noted[i]);
    f->noted_count = 0;
    if (!own->due || own->due_ms >= atomic_load(&f->highest))
        return;
    for (size_t i = 0; i < f->cap; i++)
        f->v[i].due_ms = min_of(f->v[i].due_ms, own->due_ms);
}

void pg_watermarks_on_notice(struct pg_watermarks *f, const struct store_notice *news)
{
    if (news->all || (news->due && news->due_ms < atomic_load(&f->highest)))
        atomic_fetch_add(&f->notices, 1);
}
