/* A table of sentences, one for each note, that say why an occurrence is not at the time that its rule names. */
#include "base/duration.h"
#include "core/time/recurrence_internal.h"

static void occurrence_explain_add_time_of_day(struct buf *out, int64_t local)
{
    struct civil c = civil_of(local);
    buf_printf(out, "%02d:%02d", c.hour, c.minute);
    if (c.second)
        buf_printf(out, ":%02d", c.second);
}

static void occurrence_explain_add_date(struct buf *out, int64_t local)
{
    struct date d = civil_of(local).date;
    buf_printf(out, "%04d-%02d-%02d", d.year, d.month, d.day);
}

/* "2026-12-25 (Christmas Day)" */
static void occurrence_explain_add_excluded_day(struct buf *out, const struct calendar *c, int64_t local)
{
    struct str reason = c ? calendar_reason(c, floor_div(local, DAY_S)) : S("");
    occurrence_explain_add_date(out, local);
    if (reason.n)
        buf_printf(out, " (" STR_FMT ")", STR_ARG(reason));
}

void occurrence_explain(const struct recurrence *r, const struct occurrence *o, struct buf *out)
{
    static const struct {
        enum occurrence_note note;
        const char *before; /* the nominal time or date is inserted between the two */
        enum { TIME, DATE, SPREAD } what;
        const char *after;
    } rows[] = {
        { NOTE_DAY_EXCLUDED, "skipped: ", DATE, " is excluded by the calendar" },
        { NOTE_MERGED, "skipped: moved from ", DATE,
          ", which the calendar excludes, to a time at which another one fires" },
        { NOTE_GAP_SKIPPED, "skipped: ", TIME, " does not exist that day, the clock is set forward over it" },
        { NOTE_MOVED, "moved from ", DATE, ", which the calendar excludes" },
        { NOTE_GAP_SHIFTED, "", TIME, " does not exist that day; fires when the clock has been set forward" },
        { NOTE_FIRST_COPY, "", TIME, " comes twice that day; this is the first" },
        { NOTE_SECOND_COPY, "", TIME, " comes twice that day; this is the second" },
        { NOTE_SPREAD, "spread by ", SPREAD, "" },
    };
    const char *separator = "";
    for (size_t i = 0; i < array_count(rows); i++) {
        if (!(o->notes & rows[i].note))
            continue;
        buf_printf(out, "%s%s", separator, rows[i].before);
        char spread[DURATION_TEXT];
        switch (rows[i].what) {
        case TIME: occurrence_explain_add_time_of_day(out, o->nominal_local); break;
        case DATE: occurrence_explain_add_excluded_day(out, r->calendar, o->nominal_local); break;
        case SPREAD:
            duration_format(recurrence_spread(r), spread);
            buf_text(out, spread);
            break;
        }
        buf_text(out, rows[i].after);
        separator = "; ";
    }
    if (!o->fires && o->count > 1) {
        buf_printf(out, "%s%lld times, the last at ", separator, (long long)o->count);
        occurrence_explain_add_time_of_day(out, floor_div(recurrence_local_ms(r, o->last_ms), 1000));
    }
}
