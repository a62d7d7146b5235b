/* Due watermarks: where a claim begins to scan a lane.
 *
 * Claimed tasks leave dead entries at the front of the index of due tasks. While a long transaction such as a dump
 * holds an old snapshot, vacuum cannot remove them, and each claim would step over all of them. So the store remembers
 * a watermark for each lane, a time before which no task of the lane is due, and a claim begins there.
 *
 * A watermark is a hint and may be too high. These rules correct it:
 *   - It stays 3 s behind the present: no node sets a due time in the past.
 *   - A task that this store schedules before it lowers it at once.
 *   - If another node reports a task that is due before a watermark, the next claim scans all of the lane.
 *   - The whole lane is scanned again after 1 s. If such a scan takes long, the pause is 20 times its duration, at
 *     most 5 s: a process that was stopped during the scan measures a long duration too.
 *   - Watermarks rise only when the transaction commits. They are reset with the connection: after a failover, the
 *     new server may lack the latest transactions. */
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

/* Raises `highest` when a claim begins, not when its watermarks are stored: a notice that arrives in between must
 * count. */
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

void pg_watermark_note(struct pg_watermarks *f, int64_t lane, const struct pg_scan *scan, int64_t left_ms,
                       int64_t now_ms)
{
    if (f->noted_count == f->noted_cap) {
        f->noted_cap = f->noted_cap * 2 + 16;
        f->noted = xrealloc(f->noted, f->noted_cap * sizeof *f->noted);
    }
    struct pg_watermark watermark = (size_t)lane < f->cap ? f->v[lane] : pg_watermark_unknown;
    watermark.due_ms = min_of(left_ms, now_ms - BEHIND_MS);
    if (scan->from_ms == INT64_MIN) {
        int64_t rest_ns = SHARE * (scan->ended_ns - scan->begun_ns);
        rest_ns = min_of(max_of(rest_ns, (int64_t)AGAIN_MS * NS_IN_MS), (int64_t)AGAIN_MAX_MS * NS_IN_MS);
        watermark.notices = scan->notices;
        watermark.again_ns = scan->ended_ns + rest_ns;
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

void pg_watermarks_on_notice(struct pg_watermarks *f, const struct store_notice *notice)
{
    if (notice->all || (notice->due && notice->due_ms < atomic_load(&f->highest)))
        atomic_fetch_add(&f->notices, 1);
}
