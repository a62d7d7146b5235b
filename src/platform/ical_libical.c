/* The file is cut into events here, and only the lines that matter are shown to the library, event by event: so what it allocates is
 * small, deep nesting never reaches it, and a sentence can name the line. From its values on, days are counted by base/date.h: libical's
 * own zones are not used. */
#include "port/ical.h"

#include <libical/ical.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/sentence.h"

enum { NS_PER_MS = 1000000, DEPTH_MAX = 10, DATES_RAW_MAX = 4 * CALENDAR_DATES_MAX, OVERRIDES_MAX = ICAL_EVENTS_MAX };

/* One repeat that another event stands in for. */
struct override {
    uint64_t uid;
    int32_t day;
};

struct event {
    icalcomponent *component;
    size_t line;
    struct str name;
    uint64_t uid;
    bool utc;         /* given in UTC: its date depends on the zone */
    bool is_override; /* it has a RECURRENCE-ID */
    int64_t start;    /* civil second, as written */
    int64_t length_s;
};

struct reading {
    const struct ical_options *o;
    struct arena *a;
    struct error *e;
    int64_t deadline_ns;
    struct str calendar_name;
    struct event *events;
    size_t event_count;
    struct override *overrides;
    size_t override_count;
    struct calendar_date *dates;
    size_t date_count;
};

/* ---- lines ---- */

/* A logical line: what follows a line end and a blank belongs to the line before. */
struct lines {
    struct str rest;
    size_t number; /* of the line that was given last */
    size_t next_number;
};

static bool next_line(struct lines *l, struct str *ret)
{
    if (l->rest.n == 0)
        return false;
    size_t end = 0, count = 0;
    do {
        end = str_find(l->rest, '\n', end);
        end = min_of(end + 1, l->rest.n);
        count++;
    } while (end < l->rest.n && (l->rest.p[end] == ' ' || l->rest.p[end] == '\t'));
    *ret = str_sub(l->rest, 0, end);
    l->rest = str_sub(l->rest, end, l->rest.n);
    l->number = l->next_number + 1;
    l->next_number += count;
    return true;
}

/* "DTSTART" of "DTSTART;VALUE=DATE:20260101". */
static struct str property_name(struct str line)
{
    size_t n = 0;
    while (n < line.n && !strchr(":;\r\n", line.p[n]))
        n++;
    return str_sub(line, 0, n);
}

/* What stands behind the first colon, line ends cut off. */
static struct str property_value(struct str line)
{
    size_t colon = str_find(line, ':', 0), end = line.n;
    while (end > colon && (line.p[end - 1] == '\n' || line.p[end - 1] == '\r'))
        end--;
    return colon < end ? str_sub(line, colon + 1, end) : S("");
}

/* What matters, and whether an event can do without it when the library could not read it. */
static const struct wanted {
    const char *name;
    icalproperty_kind kind;
    bool is_text;
} wanted[] = {
    { "DTSTART", ICAL_DTSTART_PROPERTY, false },
    { "DTEND", ICAL_DTEND_PROPERTY, false },
    { "DURATION", ICAL_DURATION_PROPERTY, false },
    { "RRULE", ICAL_RRULE_PROPERTY, false },
    { "RDATE", ICAL_RDATE_PROPERTY, false },
    { "EXDATE", ICAL_EXDATE_PROPERTY, false },
    { "RECURRENCE-ID", ICAL_RECURRENCEID_PROPERTY, false },
    { "STATUS", ICAL_STATUS_PROPERTY, true },
    { "SUMMARY", ICAL_SUMMARY_PROPERTY, true },
    { "UID", ICAL_UID_PROPERTY, true },
};

/* Which row; the count of them: none. */
static size_t find_wanted(struct str name)
{
    size_t i = 0;
    while (i < array_count(wanted) && !str_eq_nocase(name, str_from(wanted[i].name)))
        i++;
    return i;
}

/* ---- sentences ---- */

static enum err fail_at(struct reading *g, const struct event *v, const char *what)
{
    char name[QUOTE_TEXT];
    quote_text(v->name, name);
    if (v->name.n)
        return error_set(g->e, ERR_INVALID, "line %zu: event %s %s", v->line, name, what);
    return error_set(g->e, ERR_INVALID, "line %zu: the event %s", v->line, what);
}

/* ---- values ---- */

static bool is_sound(struct icaltimetype t)
{
    return t.year >= ICAL_FIRST_YEAR && t.year <= ICAL_LAST_YEAR &&
           date_is_valid((struct date){ t.year, t.month, t.day }) && t.hour >= 0 && t.hour < 24 && t.minute >= 0 &&
           t.minute < 60 && t.second >= 0 && t.second <= 60;
}

static int64_t second_of(struct icaltimetype t)
{
    struct civil c = { { t.year, t.month, t.day }, t.hour, t.minute, t.second };
    if (t.is_date)
        c = (struct civil){ .date = c.date };
    return civil_second(c);
}

/* The date of a civil second that is in UTC, or as the event's zone has it. */
static int32_t day_of(const struct reading *g, bool utc, int64_t second)
{
    return (int32_t)day_of_second(utc && g->o->zone ? tz_local(g->o->zone, second) : second);
}

static icalproperty *property(const struct event *v, icalproperty_kind kind)
{
    return icalcomponent_get_first_property(v->component, kind);
}

/* Texts of one line, as the library unescapes them; they end with the component. */
static struct str text_of(const struct event *v, icalproperty_kind kind)
{
    icalproperty *p = property(v, kind);
    icalvalue *value = p ? icalproperty_get_value(p) : NULL;
    const char *text = value && icalvalue_isa(value) == ICAL_TEXT_VALUE ? icalvalue_get_text(value) : NULL;
    return text ? str_from(text) : S("");
}

/* ---- one event ---- */

static enum err read_length(struct reading *g, struct event *v, struct icaltimetype start)
{
    icalproperty *end = property(v, ICAL_DTEND_PROPERTY), *duration = property(v, ICAL_DURATION_PROPERTY);
    v->length_s = start.is_date ? DAY_S : 0;
    if (end) {
        struct icaltimetype t = icalproperty_get_dtend(end);
        if (!is_sound(t))
            return fail_at(g, v, "has a DTEND that is not a date");
        bool other_utc = !t.is_date && !start.is_date && icaltime_is_utc(t) != icaltime_is_utc(start);
        v->length_s = other_utc ? v->length_s : second_of(t) - v->start; /* of two clocks: its first date stands */
    } else if (duration) {
        struct icaldurationtype d = icalproperty_get_duration(duration);
        v->length_s = ((int64_t)d.weeks * 7 + d.days) * DAY_S + (int64_t)d.hours * HOUR_S +
                      (int64_t)d.minutes * MINUTE_S + d.seconds;
        v->length_s = d.is_neg ? -v->length_s : v->length_s;
    }
    if (v->length_s < 0)
        return fail_at(g, v, "ends before it begins");
    if (v->length_s > (int64_t)CALENDAR_DATES_MAX * DAY_S)
        return fail_at(g, v, "lasts longer than a calendar reaches");
    return ERR_OK;
}

/* What the library can not read it leaves out: then an event would mean other days than it says. */
static enum err check_read(struct reading *g, const struct event *v, unsigned seen)
{
    for (size_t i = 0; i < array_count(wanted); i++) {
        if (!(seen & 1U << i) || wanted[i].is_text || property(v, wanted[i].kind))
            continue;
        char what[64];
        snprintf(what, sizeof what, "has a %s that can not be read", wanted[i].name);
        return fail_at(g, v, what);
    }
    return ERR_OK;
}

static enum err read_event(struct reading *g, struct event *v, unsigned seen)
{
    if (!arena_str(g->a, str_utf8_cut(text_of(v, ICAL_SUMMARY_PROPERTY), CALENDAR_TEXT_MAX), &v->name))
        return error_no_room(g->e);
    v->uid = hash_bytes(HASH_STABLE, text_of(v, ICAL_UID_PROPERTY));
    icalproperty *start = property(v, ICAL_DTSTART_PROPERTY), *id = property(v, ICAL_RECURRENCEID_PROPERTY);
    if (check_read(g, v, seen))
        return ERR_INVALID;
    if (!start)
        return fail_at(g, v, "has no DTSTART");
    struct icaltimetype t = icalproperty_get_dtstart(start);
    if (!is_sound(t))
        return fail_at(g, v, "has a DTSTART that is not a date between 1900 and 2200");
    v->utc = !t.is_date && icaltime_is_utc(t);
    v->start = second_of(t);
    if (read_length(g, v, t))
        return ERR_INVALID;
    v->is_override = id != NULL;
    if (!id)
        return ERR_OK;
    struct icaltimetype of = icalproperty_get_recurrenceid(id);
    if (!is_sound(of))
        return fail_at(g, v, "has a RECURRENCE-ID that is not a date");
    bool utc = !of.is_date && icaltime_is_utc(of);
    g->overrides[g->override_count++] = (struct override){ v->uid, day_of(g, utc, second_of(of)) };
    return ERR_OK;
}

static bool is_cancelled(const struct event *v)
{
    icalproperty *p = property(v, ICAL_STATUS_PROPERTY);
    return p && icalproperty_get_status(p) == ICAL_STATUS_CANCELLED;
}

/* ---- its dates ---- */

static int compare_overrides(const void *a, const void *b)
{
    const struct override *x = a, *y = b;
    if (x->uid != y->uid)
        return x->uid < y->uid ? -1 : 1;
    return (x->day > y->day) - (x->day < y->day);
}

static bool is_overridden(const struct reading *g, const struct event *v, int32_t day)
{
    struct override one = { v->uid, day };
    return !v->is_override && g->override_count &&
           bsearch(&one, g->overrides, g->override_count, sizeof one, compare_overrides);
}

static int compare_days(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The dates that one occurrence covers. */
static enum err add_occurrence(struct reading *g, const struct event *v, int64_t start)
{
    int32_t first = day_of(g, v->utc, start), last = day_of(g, v->utc, max_of(start + v->length_s - 1, start));
    for (int32_t day = first; day <= last; day++) {
        if (g->date_count == DATES_RAW_MAX)
            return error_set(g->e, ERR_LIMIT, "holds more than %d dates", CALENDAR_DATES_MAX);
        g->dates[g->date_count++] = (struct calendar_date){ day, v->name };
    }
    return ERR_OK;
}

struct days {
    int32_t *v;
    size_t n;
};

static enum err read_exdates(struct reading *g, const struct event *v, struct days *ret)
{
    size_t n = (size_t)max_of(icalcomponent_count_properties(v->component, ICAL_EXDATE_PROPERTY), 0);
    *ret = (struct days){ .v = arena_array(g->a, int32_t, n + 1) };
    if (!ret->v)
        return error_no_room(g->e);
    for (icalproperty *p = property(v, ICAL_EXDATE_PROPERTY); p && ret->n < n;
         p = icalcomponent_get_next_property(v->component, ICAL_EXDATE_PROPERTY)) {
        struct icaltimetype t = icalproperty_get_exdate(p);
        if (!is_sound(t))
            return fail_at(g, v, "has an EXDATE that is not a date");
        ret->v[ret->n++] = day_of(g, !t.is_date && icaltime_is_utc(t), second_of(t));
    }
    ret->n = calendar_sort(ret->v, ret->n);
    return ERR_OK;
}

static enum err add_unless_taken_out(struct reading *g, const struct event *v, const struct days *ex, int64_t start)
{
    int32_t day = day_of(g, v->utc, start);
    if (ex->n && bsearch(&day, ex->v, ex->n, sizeof day, compare_days))
        return ERR_OK;
    return is_overridden(g, v, day) ? ERR_OK : add_occurrence(g, v, start);
}

static enum err add_rdates(struct reading *g, const struct event *v, const struct days *ex)
{
    for (icalproperty *p = property(v, ICAL_RDATE_PROPERTY); p;
         p = icalcomponent_get_next_property(v->component, ICAL_RDATE_PROPERTY)) {
        struct icaldatetimeperiodtype t = icalproperty_get_rdate(p);
        struct icaltimetype at = icaltime_is_null_time(t.time) ? t.period.start : t.time;
        if (!is_sound(at))
            return fail_at(g, v, "has an RDATE that is not a date");
        if (add_unless_taken_out(g, v, ex, second_of(at)))
            return g->e->code;
    }
    return ERR_OK;
}

static bool is_too_late(const struct reading *g)
{
    return clock_steady_ns(g->o->clock) >= g->deadline_ns;
}

static enum err sound_rule(struct reading *g, const struct event *v, icalproperty *p, struct icalrecurrencetype *ret)
{
    struct icalrecurrencetype rule = icalproperty_get_rrule(p);
    if (rule.freq == ICAL_NO_RECURRENCE)
        return fail_at(g, v, "has an RRULE that can not be read");
    if (rule.freq < ICAL_DAILY_RECURRENCE)
        return fail_at(g, v, "repeats more than once a day; a calendar knows days");
    if (rule.rscale)
        return fail_at(g, v, "has an RRULE with RSCALE, which is not supported");
    *ret = rule;
    return ERR_OK;
}

static enum err add_repeats(struct reading *g, const struct event *v, const struct days *ex, icalproperty *p)
{
    struct icalrecurrencetype rule;
    if (sound_rule(g, v, p, &rule))
        return ERR_INVALID;
    struct icaltimetype start = icalproperty_get_dtstart(property(v, ICAL_DTSTART_PROPERTY));
    start.zone = NULL; /* steps on the wall */
    icalrecur_iterator *i = icalrecur_iterator_new(rule, start);
    enum err rc = ERR_OK;
    while (i && rc == ERR_OK) {
        struct icaltimetype t = icalrecur_iterator_next(i);
        int32_t day = is_sound(t) ? day_of(g, v->utc, second_of(t)) : INT32_MAX;
        if (day >= g->o->until_day)
            break;
        if (day >= g->o->from_day)
            rc = add_unless_taken_out(g, v, ex, second_of(t));
        if (rc == ERR_OK && is_too_late(g))
            rc = error_set(g->e, ERR_LIMIT,
                           "line %zu: takes too long: its rules name dates that are too many or never come", v->line);
    }
    icalrecur_iterator_free(i);
    return rc;
}

static enum err add_dates(struct reading *g, const struct event *v)
{
    struct days ex;
    if (is_cancelled(v))
        return ERR_OK;
    if (is_too_late(g))
        return error_set(g->e, ERR_LIMIT,
                         "line %zu: takes too long: its rules name dates that are too many or never come", v->line);
    if (read_exdates(g, v, &ex) || add_rdates(g, v, &ex))
        return g->e->code;
    icalproperty *rule = property(v, ICAL_RRULE_PROPERTY);
    return rule ? add_repeats(g, v, &ex, rule) : add_unless_taken_out(g, v, &ex, v->start);
}

/* ---- the file ---- */

/* text is BEGIN:VEVENT to END:VEVENT, with what matters in between. */
static enum err take_event(struct reading *g, const struct buf *text, size_t line, unsigned seen)
{
    struct event *v = &g->events[g->event_count];
    *v = (struct event){ .line = line };
    if (text->full)
        return fail_at(g, v, "is larger than 64 KiB");
    v->component = icalparser_parse_string(buf_cstr(text));
    if (!v->component)
        return fail_at(g, v, "can not be read");
    g->event_count++;
    if (icalcomponent_isa(v->component) != ICAL_VEVENT_COMPONENT)
        return fail_at(g, v, "can not be read");
    return read_event(g, v, seen);
}

struct cutting {
    struct lines lines;
    struct buf event;
    size_t depth, event_depth; /* of components; event_depth 0: not within one */
    size_t event_line;
    unsigned seen; /* bit i: a line of row i of `wanted` was in this event */
    bool has_calendar;
};

static enum err open_component(struct reading *g, struct cutting *c, struct str kind)
{
    if (++c->depth > DEPTH_MAX)
        return error_set(g->e, ERR_INVALID, "line %zu: is nested more than %d deep", c->lines.number, DEPTH_MAX);
    if (c->depth == 1) {
        c->has_calendar = str_eq_nocase(kind, S("VCALENDAR"));
        return c->has_calendar
                   ? ERR_OK
                   : error_set(g->e, ERR_INVALID, "line %zu: must begin with BEGIN:VCALENDAR", c->lines.number);
    }
    if (c->depth != 2 || !str_eq_nocase(kind, S("VEVENT")))
        return ERR_OK;
    if (g->event_count == ICAL_EVENTS_MAX)
        return error_set(g->e, ERR_LIMIT, "holds more than %d events", ICAL_EVENTS_MAX);
    c->event_depth = c->depth;
    c->event_line = c->lines.number;
    c->seen = 0;
    buf_reset(&c->event);
    buf_text(&c->event, "BEGIN:VEVENT\r\n");
    return ERR_OK;
}

static enum err close_component(struct reading *g, struct cutting *c)
{
    if (c->depth == 0)
        return error_set(g->e, ERR_INVALID, "line %zu: END without its BEGIN", c->lines.number);
    bool settle_retry_event = c->depth-- == c->event_depth;
    if (!settle_retry_event)
        return ERR_OK;
    c->event_depth = 0;
    buf_text(&c->event, "END:VEVENT\r\n");
    return take_event(g, &c->event, c->event_line, c->seen);
}

static enum err take_line(struct reading *g, struct cutting *c, struct str line)
{
    struct str name = property_name(line);
    if (str_trim(property_name(line)).n == 0 && property_value(line).n == 0)
        return ERR_OK;
    if (str_eq_nocase(name, S("BEGIN")))
        return open_component(g, c, str_trim(property_value(line)));
    if (str_eq_nocase(name, S("END")))
        return close_component(g, c);
    if (c->depth == 0)
        return error_set(g->e, ERR_INVALID, "line %zu: must begin with BEGIN:VCALENDAR", c->lines.number);
    if (c->depth == 1 && str_eq_nocase(name, S("X-WR-CALNAME")) &&
        !arena_str(g->a, str_utf8_cut(property_value(line), CALENDAR_TEXT_MAX), &g->calendar_name))
        return error_no_room(g->e);
    size_t row = c->event_depth == c->depth ? find_wanted(name) : array_count(wanted);
    if (row < array_count(wanted)) {
        c->seen |= 1U << row;
        buf_add(&c->event, line);
        if (line.p[line.n - 1] != '\n')
            buf_char(&c->event, '\n');
    }
    return ERR_OK;
}

static enum err cut(struct reading *g, struct str text)
{
    struct cutting c = { .lines = { .rest = text } };
    struct str line;
    enum err rc = ERR_OK;
    buf_init(&c.event, ICAL_EVENT_BYTES);
    while (rc == ERR_OK && next_line(&c.lines, &line))
        rc = take_line(g, &c, line);
    buf_release(&c.event);
    if (rc == ERR_OK && !c.has_calendar)
        return error_set(g->e, ERR_INVALID, "is empty: an iCalendar file begins with BEGIN:VCALENDAR");
    if (rc == ERR_OK && c.depth)
        return error_set(g->e, ERR_INVALID, "ends within a component: is it the whole file?");
    return rc;
}

static int compare_dates(const void *a, const void *b)
{
    const struct calendar_date *x = a, *y = b;
    if (x->day != y->day)
        return x->day < y->day ? -1 : 1;
    return (x->name.n == 0) - (y->name.n == 0); /* one with a name first */
}

static enum err gather(struct reading *g, struct ical_dates *ret)
{
    size_t n = 0;
    if (g->date_count)
        qsort(g->dates, g->date_count, sizeof *g->dates, compare_dates);
    for (size_t i = 0; i < g->date_count; i++)
        if (n == 0 || g->dates[i].day != g->dates[n - 1].day)
            g->dates[n++] = g->dates[i];
    if (n > CALENDAR_DATES_MAX)
        return error_set(g->e, ERR_LIMIT, "holds more than %d dates", CALENDAR_DATES_MAX);
    *ret = (struct ical_dates){ g->calendar_name, g->dates, n };
    return ERR_OK;
}

static enum err read_all(struct reading *g, struct str text, struct ical_dates *ret)
{
    g->events = arena_array(g->a, struct event, ICAL_EVENTS_MAX);
    g->overrides = arena_array(g->a, struct override, OVERRIDES_MAX);
    g->dates = arena_array(g->a, struct calendar_date, DATES_RAW_MAX);
    if (!g->events || !g->overrides || !g->dates)
        return error_no_room(g->e);
    enum err rc = cut(g, text);
    if (g->override_count)
        qsort(g->overrides, g->override_count, sizeof *g->overrides, compare_overrides);
    for (size_t i = 0; rc == ERR_OK && i < g->event_count; i++)
        rc = add_dates(g, &g->events[i]);
    for (size_t i = 0; i < g->event_count; i++)
        icalcomponent_free(g->events[i].component);
    return rc ? rc : gather(g, ret);
}

/* Its settings are the process's: they are set once. */
static void set_up(void)
{
    icalerror_set_errors_are_fatal(0);
}

enum err ical_read(struct str text, const struct ical_options *o, struct arena *a, struct ical_dates *ret,
                   struct error *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up);
    struct error why = { 0 };
    enum err rc = ERR_OK;
    if (str_starts(text, S("\xEF\xBB\xBF")))
        text = str_sub(text, 3, text.n);
    if (text.n > ICAL_TEXT_MAX)
        rc = error_set(&why, ERR_LIMIT, "is larger than %d MiB", ICAL_TEXT_MAX >> 20);
    else if (!str_is_utf8(text) || memchr(text.p, '\0', text.n))
        rc = error_set(&why, ERR_INVALID, "is not UTF-8 text");
    struct reading g = {
        .o = o, .a = a, .e = &why, .deadline_ns = clock_steady_ns(o->clock) + (int64_t)ICAL_TIME_MAX_MS * NS_PER_MS
    };
    if (rc == ERR_OK)
        rc = read_all(&g, text, ret);
    if (rc && e)
        *e = why;
    return rc;
}
