/* A sentence has four parts: the time, the days, the weekdays and the months. The time is described by the occurrences
 * of one day (a few times, or equal distances). If neither applies, or if a field has an H, the fields are described
 * one by one. A set is described by its values, not by how it was written: 0-59 is "every minute". */
#include <assert.h>

#include "core/time/cron_syntax.h"

/* Up to TIMES_FEW occurrences a day are listed. If there are more, they are described by their distance if it is equal,
 * else listed up to TIMES_MAX. */
enum { TIMES_FEW = 3, TIMES_MAX = 6, PROGRESSION_MIN = 4, RUN_MIN = 3 };

static const struct {
    const char *one, *article; /* "minute", "a" */
    bool numbered;             /* "minute 5", but "Monday" */
} units[CRON_FIELDS] = {
    [CRON_SECOND] = { "second", "a", true }, [CRON_MINUTE] = { "minute", "a", true },
    [CRON_HOUR] = { "hour", "an", true },    [CRON_DAY] = { "day", "a", true },
    [CRON_MONTH] = { "month", "a", false },  [CRON_WEEKDAY] = { "day of the week", "a", false },
};

/* The values that a field names without an H. */
struct cron_field_view {
    uint64_t set;
    int count, first, last;
    int step; /* their distance if all distances are equal, else 0 */
    bool all;
    int others; /* number of members that are not plain values: H, L, W, # */
};

/* Whether an item's values are fixed: it has no H that can choose. */
static bool cron_describe_is_fixed(const struct cron_item *i)
{
    return i->kind == CRON_SPAN && i->choices < 2;
}

static struct cron_field_view cron_describe_view(const struct cron_syntax *syntax, enum cron_field_id id)
{
    struct cron_field_view v = { .set = 0 };
    for (each_item(i, syntax, id)) {
        if (cron_describe_is_fixed(i))
            v.set |= cron_item_set(i, 0);
        else
            v.others++;
    }
    if (id == CRON_WEEKDAY && v.set >> 7)
        v.set = (v.set | 1) & 0x7F;
    v.count = __builtin_popcountll(v.set);
    v.all = v.count == cron_rules[id].values;
    if (v.count == 0)
        return v;
    v.first = __builtin_ctzll(v.set);
    v.last = 63 - __builtin_clzll(v.set);
    int step = v.count > 1 ? (v.last - v.first) / (v.count - 1) : 0;
    uint64_t even = 0;
    for (int value = v.first; step && value <= v.last; value += step)
        even |= 1ULL << value;
    v.step = even == v.set ? step : 0;
    return v;
}

static bool cron_describe_is_progression(const struct cron_field_view *v)
{
    return v->count >= PROGRESSION_MIN && v->step > 1;
}

/* Whether the values continue at the same distance from one hour (minute, day) to the next. */
static bool cron_describe_wraps_around(const struct cron_field_view *v, enum cron_field_id id)
{
    return v->step && v->step * v->count == cron_rules[id].values;
}

static const char *cron_describe_ordinal_ending(int n)
{
    static const char *const endings[] = { "th", "st", "nd", "rd" };
    bool teen = n / 10 % 10 == 1;
    return teen || n % 10 > 3 ? "th" : endings[n % 10];
}

/* Returns the text before part i of count: nothing, a comma, or the word. */
static const char *cron_describe_separator(int i, int count, const char *word)
{
    return i == 0 ? "" : i == count - 1 ? word : ", ";
}

static void cron_describe_put_value(struct buf *out, enum cron_field_id id, int v)
{
    if (units[id].numbered)
        buf_printf(out, "%d", v);
    else
        buf_text(out, cron_rules[id].long_names[v - cron_rules[id].min]);
}

struct cron_run {
    int from, to;
};

/* Splits values into runs, in order; a run that is too short for "through" becomes single values. The week starts at
 * the beginning of a run, preferably on a Monday, so FRI-MON stays together. */
static int cron_describe_collect_runs(enum cron_field_id id, uint64_t set, struct cron_run *runs)
{
    const int min = cron_rules[id].min, period = cron_rules[id].values;
    int start = min, count = 0;
    for (int k = 0; id == CRON_WEEKDAY && k < period; k++) {
        start = (1 + k) % period;
        if (set >> start & 1 && !(set >> (start + period - 1) % period & 1))
            break;
    }
    for (int k = 0; k < period; k++) {
        int length = 0;
        while (k + length < period && set >> (min + (start - min + k + length) % period) & 1)
            length++;
        int from = start - min + k, to = from + length - 1;
        for (int i = from; length < RUN_MIN && i <= to; i++)
            runs[count++] = (struct cron_run){ min + i % period, min + i % period };
        if (length >= RUN_MIN)
            runs[count++] = (struct cron_run){ min + from % period, min + to % period };
        k += length;
    }
    return count;
}

/* "5, 10 and 20 through 30" */
static void cron_describe_put_values(struct buf *out, enum cron_field_id id, uint64_t set, const char *word)
{
    struct cron_run runs[64];
    int count = cron_describe_collect_runs(id, set, runs);
    for (int i = 0; i < count; i++) {
        buf_text(out, cron_describe_separator(i, count, word));
        cron_describe_put_value(out, id, runs[i].from);
        if (runs[i].to == runs[i].from)
            continue;
        buf_text(out, " through ");
        cron_describe_put_value(out, id, runs[i].to);
    }
}

/* "every minute", "every 2nd hour from 0 through 22", "minutes 5 and 35", "Monday" */
static void cron_describe_put_set(struct buf *out, enum cron_field_id id, const struct cron_field_view *v,
                                  const char *word)
{
    const char *unit = units[id].one;
    if (v->all)
        buf_printf(out, "every %s", unit);
    else if (cron_describe_is_progression(v) && units[id].numbered)
        buf_printf(out, "every %d%s %s from %d through %d", v->step, cron_describe_ordinal_ending(v->step), unit,
                   v->first, v->last);
    else {
        if (units[id].numbered)
            buf_printf(out, "%s%s ", unit, v->count > 1 ? "s" : "");
        cron_describe_put_values(out, id, v->set, word);
    }
}

/* "a minute between 0 and 29 chosen by the task's id": the value of an H, or the first value of its steps. */
static void cron_describe_put_choice(struct buf *out, enum cron_field_id id, const struct cron_item *i)
{
    buf_printf(out, "%s %s", units[id].article, units[id].one);
    if (i->bounded || i->step) {
        buf_text(out, " between ");
        cron_describe_put_value(out, id, i->from);
        buf_text(out, " and ");
        cron_describe_put_value(out, id, i->from + i->choices - 1);
    }
    buf_text(out, " chosen by the task's id");
}

static void cron_describe_put_hash_end(struct buf *out, enum cron_field_id id, const struct cron_item *i)
{
    if (!i->bounded)
        return;
    buf_text(out, " through ");
    cron_describe_put_value(out, id, i->to);
}

static void cron_describe_put_hash(struct buf *out, enum cron_field_id id, const struct cron_item *i)
{
    if (i->step)
        buf_printf(out, "every %d%s %s from ", i->step, cron_describe_ordinal_ending(i->step), units[id].one);
    cron_describe_put_choice(out, id, i);
    if (i->step)
        cron_describe_put_hash_end(out, id, i);
}

static void cron_describe_put_special(struct buf *out, enum cron_field_id id, const struct cron_item *i)
{
    switch ((enum cron_item_kind)i->kind) {
    case CRON_SPAN: cron_describe_put_hash(out, id, i); break;
    case CRON_LAST:
        if (i->from == 0)
            buf_text(out, "the last day");
        else if (i->from == 1)
            buf_text(out, "the day before the last day");
        else
            buf_printf(out, "the day %d days before the last day", i->from);
        break;
    case CRON_LAST_WORKDAY: buf_text(out, "the last weekday"); break;
    case CRON_NEAREST_WORKDAY: buf_printf(out, "the weekday nearest to day %d", i->from); break;
    case CRON_NTH:
        buf_printf(out, "the %d%s ", i->nth, cron_describe_ordinal_ending(i->nth)),
            cron_describe_put_value(out, id, i->from);
        break;
    case CRON_LAST_OF: buf_text(out, "the last "), cron_describe_put_value(out, id, i->from); break;
    }
}

/* Describes a whole field: its values, then its other members. */
static void cron_describe_put_field(struct buf *out, const struct cron_syntax *syntax, enum cron_field_id id,
                                    const char *word)
{
    struct cron_field_view v = cron_describe_view(syntax, id);
    int parts = (v.set != 0) + v.others, part = 0;
    if (v.set) {
        cron_describe_put_set(out, id, &v, word);
        part++;
    }
    if (v.all)
        return;
    for (each_item(i, syntax, id)) {
        if (cron_describe_is_fixed(i))
            continue;
        buf_text(out, cron_describe_separator(part++, parts, word));
        cron_describe_put_special(out, id, i);
    }
}

static void cron_describe_put_clock(struct buf *out, int time, bool seconds)
{
    buf_printf(out, "%02d:%02d", time / HOUR_S, time % HOUR_S / MINUTE_S);
    if (seconds)
        buf_printf(out, ":%02d", time % MINUTE_S);
}

/* "At 08:00, 12:00 and 18:00" */
static void cron_describe_put_times(struct buf *out, const struct cron *c, int count)
{
    bool seconds = c->seconds != 1;
    buf_text(out, "At ");
    int time = -1;
    for (int i = 0; i < count; i++) {
        time = cron_next_in_day(c, time + 1);
        buf_text(out, cron_describe_separator(i, count, " and "));
        cron_describe_put_clock(out, time, seconds);
    }
}

/* The occurrences of a day at equal distances. */
struct cron_cycle {
    int first, last, step;
};

/* step is 0 if the distances differ. */
static struct cron_cycle cron_describe_cycle(const struct cron *c)
{
    int first = cron_next_in_day(c, 0), last = cron_next_in_day(c, first + 1);
    struct cron_cycle cycle = { first, last, last - first };
    while (last < DAY_S - 1) {
        int next = cron_next_in_day(c, last + 1);
        if (next < 0)
            break;
        if (next - last != cycle.step)
            return (struct cron_cycle){ .step = 0 };
        cycle.last = last = next;
    }
    return cycle;
}

static void cron_describe_put_period(struct buf *out, int n, const char *unit)
{
    if (n == 1)
        buf_printf(out, "Every %s", unit);
    else
        buf_printf(out, "Every %d %ss", n, unit);
}

/* Says where in the hour or minute the occurrences of a round-the-clock cycle fall. */
static void cron_describe_put_phase(struct buf *out, struct cron_cycle b)
{
    int minute = b.first / MINUTE_S, second = b.first % MINUTE_S;
    if (b.step == HOUR_S && b.first == 0)
        buf_text(out, " on the hour");
    else if (b.step == HOUR_S && second == 0)
        buf_printf(out, " at minute %d", minute);
    else if (b.step == HOUR_S)
        buf_printf(out, " at minute %d and second %d", minute, second);
    else if (b.step > HOUR_S || (minute > 0 && second > 0))
        buf_text(out, " from "), cron_describe_put_clock(out, b.first, second > 0);
    else if (minute > 0)
        buf_printf(out, " from minute %d of every hour", minute);
    else if (second > 0 && b.step >= MINUTE_S)
        buf_printf(out, " at second %d", second);
    else if (second > 0)
        buf_printf(out, " from second %d of every minute", second);
}

/* "Every 5 minutes", "Every 30 minutes from 08:00 through 17:30"; returns true if the cycle continues around the
 * clock. */
static bool cron_describe_put_cycle(struct buf *out, struct cron_cycle b)
{
    if (b.step % HOUR_S == 0)
        cron_describe_put_period(out, b.step / HOUR_S, "hour");
    else if (b.step % MINUTE_S == 0)
        cron_describe_put_period(out, b.step / MINUTE_S, "minute");
    else
        cron_describe_put_period(out, b.step, "second");
    if (b.last + b.step == b.first + DAY_S) {
        cron_describe_put_phase(out, b);
        return true;
    }
    bool seconds = b.first % MINUTE_S || b.step % MINUTE_S;
    buf_text(out, " from ");
    cron_describe_put_clock(out, b.first, seconds);
    buf_text(out, " through ");
    cron_describe_put_clock(out, b.last, seconds);
    return false;
}

/* Returns the only member of a field if it is an H with a step (stepped) or without one; else NULL. */
static const struct cron_item *cron_describe_lone_hash(const struct cron_syntax *syntax, enum cron_field_id id,
                                                       bool stepped)
{
    const struct cron_item *i = cron_items(syntax, id);
    return syntax->fields[id].count == 1 && i->choices > 1 && (i->step != 0) == stepped ? i : NULL;
}

/* An H in minute and hour, or in the minute of a single hour, is a time of day: "At a time from 02:00 through 05:59
 * chosen by the task's id". */
static bool cron_describe_put_chosen_time(struct buf *out, const struct cron_syntax *syntax)
{
    struct cron_field_view second = cron_describe_view(syntax, CRON_SECOND),
                           hour = cron_describe_view(syntax, CRON_HOUR);
    const struct cron_item *minute = cron_describe_lone_hash(syntax, CRON_MINUTE, false);
    const struct cron_item *hash = cron_describe_lone_hash(syntax, CRON_HOUR, false);
    bool any_second = second.set == 1 || cron_describe_lone_hash(syntax, CRON_SECOND, false);
    if (!any_second || !minute || minute->bounded || (!hash && (hour.count != 1 || hour.others)))
        return false;
    buf_text(out, "At a time");
    if (!hash || hash->bounded)
        buf_printf(out, " from %02d:00 through %02d:59", hash ? hash->from : hour.first, hash ? hash->to : hour.first);
    buf_text(out, " chosen by the task's id");
    return true;
}

/* Describes the finest field, at the start of the sentence. */
static void cron_describe_put_lead(struct buf *out, const struct cron_syntax *syntax, enum cron_field_id id)
{
    struct cron_field_view v = cron_describe_view(syntax, id);
    const struct cron_item *hash = cron_describe_lone_hash(syntax, id, true);
    const char *unit = units[id].one;
    if (hash) {
        cron_describe_put_period(out, hash->step, unit);
        buf_text(out, " from ");
        cron_describe_put_choice(out, id, hash);
        cron_describe_put_hash_end(out, id, hash);
    } else if (v.all) {
        cron_describe_put_period(out, 1, unit);
    } else if (cron_describe_is_progression(&v) && !v.others) {
        cron_describe_put_period(out, v.step, unit);
        if (!cron_describe_wraps_around(&v, id))
            buf_printf(out, " from %s %d through %d", unit, v.first, v.last);
        else if (v.first > 0)
            buf_printf(out, " from %s %d", unit, v.first);
    } else {
        buf_text(out, "At ");
        cron_describe_put_field(out, syntax, id, " and ");
    }
}

/* Describes the time field by field: "At minutes 0 and 7 of hours 8 through 17". */
static void cron_describe_put_nested(struct buf *out, const struct cron_syntax *syntax)
{
    struct cron_field_view second = cron_describe_view(syntax, CRON_SECOND),
                           minute = cron_describe_view(syntax, CRON_MINUTE);
    struct cron_field_view hour = cron_describe_view(syntax, CRON_HOUR);
    enum cron_field_id id = second.set == 1 && !second.others ? CRON_MINUTE : CRON_SECOND;
    bool rest_all = hour.all && (id == CRON_MINUTE || minute.all);
    if (rest_all && cron_describe_lone_hash(syntax, id, false)) {
        buf_printf(out, "Every %s at ", units[id + 1].one);
        cron_describe_put_field(out, syntax, id, " and ");
        return;
    }
    const struct cron_item *hash = cron_describe_lone_hash(syntax, id, true);
    cron_describe_put_lead(out, syntax, id);
    if (rest_all && hash && !hash->bounded && cron_rules[id].values % hash->step == 0)
        return; /* the steps are even, so the unit above need not be named */
    bool hashed = cron_describe_view(syntax, id).others > 0;
    for (unsigned up = id + 1; up <= CRON_HOUR; up++) {
        buf_text(out, hashed ? " in " : " of ");
        cron_describe_put_field(out, syntax, (enum cron_field_id)up, " and ");
        hashed = cron_describe_view(syntax, (enum cron_field_id)up).others > 0;
        if (rest_all)
            break;
    }
}

/* Returns true if the occurrences continue around the clock, so that "every day" would be redundant. */
static bool cron_describe_put_time(struct buf *out, const struct cron_syntax *syntax)
{
    struct cron_field_view second = cron_describe_view(syntax, CRON_SECOND),
                           minute = cron_describe_view(syntax, CRON_MINUTE);
    struct cron_field_view hour = cron_describe_view(syntax, CRON_HOUR);
    if (second.others + minute.others + hour.others == 0) {
        struct cron c = { .seconds = second.set, .minutes = minute.set, .hours = (uint32_t)hour.set };
        int count = second.count * minute.count * hour.count;
        struct cron_cycle cycle = count > TIMES_FEW ? cron_describe_cycle(&c) : (struct cron_cycle){ .step = 0 };
        if (cycle.step)
            return cron_describe_put_cycle(out, cycle);
        if (count <= TIMES_MAX) {
            cron_describe_put_times(out, &c, count);
            return false;
        }
    } else if (cron_describe_put_chosen_time(out, syntax)) {
        return false;
    }
    cron_describe_put_nested(out, syntax);
    return hour.all;
}

static void cron_describe_put_in_months(struct buf *out, const struct cron_syntax *syntax, const char *before)
{
    if (cron_describe_view(syntax, CRON_MONTH).all)
        return;
    buf_text(out, before);
    cron_describe_put_field(out, syntax, CRON_MONTH, " and ");
}

/* "a day chosen by the task's id of June" would be misread. */
static const char *cron_describe_of(const struct cron_syntax *syntax, enum cron_field_id days)
{
    for (each_item(i, syntax, days))
        if (i->choices > 1)
            return " within ";
    return " of ";
}

/* " of the month", " of June", " of the month in June and July", after a field of days. */
static void cron_describe_put_of_month(struct buf *out, const struct cron_syntax *syntax, enum cron_field_id days)
{
    struct cron_field_view v = cron_describe_view(syntax, CRON_MONTH);
    bool one = v.count + v.others == 1 && !cron_describe_lone_hash(syntax, CRON_MONTH, true);
    const char *of = cron_describe_of(syntax, days);
    if (!one)
        buf_printf(out, "%sthe month", of);
    cron_describe_put_in_months(out, syntax, one ? of : " in ");
}

/* Whether a weekday is counted within the month (MON#2, FRIL), not within the week. */
static bool cron_describe_counts_weekdays(const struct cron_syntax *syntax)
{
    for (each_item(i, syntax, CRON_WEEKDAY))
        if (i->kind != CRON_SPAN)
            return true;
    return false;
}

static void cron_describe_put_weekdays(struct buf *out, const struct cron_syntax *syntax)
{
    buf_text(out, " on ");
    cron_describe_put_field(out, syntax, CRON_WEEKDAY, " and ");
    if (cron_describe_counts_weekdays(syntax))
        cron_describe_put_of_month(out, syntax, CRON_WEEKDAY);
    else
        cron_describe_put_in_months(out, syntax, " in ");
}

static void cron_describe_put_either(struct buf *out, const struct cron_syntax *syntax)
{
    buf_text(out, " on ");
    cron_describe_put_field(out, syntax, CRON_DAY, " and ");
    buf_printf(out, "%sthe month, or on ", cron_describe_of(syntax, CRON_DAY));
    cron_describe_put_field(out, syntax, CRON_WEEKDAY, " and ");
    if (cron_describe_counts_weekdays(syntax))
        buf_printf(out, "%sthe month", cron_describe_of(syntax, CRON_WEEKDAY));
    cron_describe_put_in_months(out, syntax, ", only in ");
}

static void cron_describe_put_days(struct buf *out, const struct cron_syntax *syntax, bool around_the_clock)
{
    bool either = !syntax->fields[CRON_DAY].any && !syntax->fields[CRON_WEEKDAY].any;
    bool all_days = cron_describe_view(syntax, CRON_DAY).all,
         all_weekdays = cron_describe_view(syntax, CRON_WEEKDAY).all;
    if (either ? all_days || all_weekdays : all_days && all_weekdays) {
        buf_text(out, around_the_clock ? "" : " every day");
        cron_describe_put_in_months(out, syntax, " in ");
    } else if (all_days) {
        cron_describe_put_weekdays(out, syntax);
    } else if (either) {
        cron_describe_put_either(out, syntax);
    } else {
        buf_text(out, " on ");
        cron_describe_put_field(out, syntax, CRON_DAY, " and ");
        cron_describe_put_of_month(out, syntax, CRON_DAY);
        if (all_weekdays)
            return;
        buf_text(out, ", only if it is ");
        cron_describe_put_field(out, syntax, CRON_WEEKDAY, " or ");
    }
}

void cron_describe(struct str text, struct buf *out)
{
    struct cron_syntax syntax;
    struct error e;
    enum err rc = cron_syntax_parse(text, &syntax, &e);
    assert(rc == ERR_OK);
    cron_describe_put_days(out, &syntax, cron_describe_put_time(out, &syntax));
}
