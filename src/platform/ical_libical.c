/* This file splits the calendar into events and passes only the relevant lines of each event to libical. So libical
 * allocates little, never sees deep nesting, and errors can name the line. Dates are computed with base/date.h;
 * libical's own time zones are not used. Each call is independent: any thread may call ical_read. */
#include "port/ical.h"

#include <libical/ical.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/sentence.h"
#include "platform/ical_rule.h"

enum { NS_PER_MS = 1000000, DEPTH_MAX = 10, DATES_RAW_MAX = 4 * CALENDAR_DATES_MAX, OVERRIDES_MAX = ICAL_EVENTS_MAX };

/* A repeat that another event replaces (RECURRENCE-ID). */
struct ical_override {
    uint64_t uid;
    int32_t day;
};

struct ical_event {
    icalcomponent *component;
    size_t line;
    struct ical_rule rule; /* of its RRULE, if it has one */
    struct str name;
    uint64_t uid;
    bool utc;         /* given in UTC: its date depends on the calendar's zone */
    bool is_override; /* has a RECURRENCE-ID */
    int64_t start;    /* civil second, as written in the file */
    int64_t length_s;
};

struct ical_reading {
    const struct ical_options *o;
    struct arena *a;
    struct error *e;
    int64_t deadline_ns;
    struct str calendar_name;
    struct ical_event *events;
    size_t event_count;
    struct ical_override *overrides;
    size_t override_count;
    struct calendar_date *dates;
    size_t date_count;
};

/* ---- lines ---- */

/* Iterates over logical lines: a line that starts with a blank continues the line before it. */
struct ical_lines {
    struct str rest;
    size_t number; /* of the line returned last */
    size_t next_number;
};

static bool ical_next_line(struct ical_lines *l, struct str *ret)
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
static struct str ical_property_name(struct str line)
{
    size_t n = 0;
    while (n < line.n && !strchr(":;\r\n", line.p[n]))
        n++;
    return str_sub(line, 0, n);
}

/* The text after the first colon, without the line end. */
static struct str ical_property_value(struct str line)
{
    size_t colon = str_find(line, ':', 0), end = line.n;
    while (end > colon && (line.p[end - 1] == '\n' || line.p[end - 1] == '\r'))
        end--;
    return colon < end ? str_sub(line, colon + 1, end) : S("");
}

/* The properties that are used. is_text: the event is valid even if libical cannot parse this property. */
static const struct used_property {
    const char *name;
    icalproperty_kind kind;
    bool is_text;
} used_properties[] = {
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

/* Index of the row, or the number of rows. */
static size_t ical_find_property(struct str name)
{
    size_t i = 0;
    while (i < array_count(used_properties) && !str_eq_nocase(name, str_from(used_properties[i].name)))
        i++;
    return i;
}

/* ---- error sentences ---- */

static enum err ical_refuse_event(struct ical_reading *g, const struct ical_event *v, const char *what)
{
    char name[QUOTE_TEXT];
    quote_text(v->name, name);
    if (v->name.n)
        return error_set(g->e, ERR_INVALID, "line %zu: event %s %s", v->line, name, what);
    return error_set(g->e, ERR_INVALID, "line %zu: the event %s", v->line, what);
}

static enum err ical_refuse_rule(struct ical_reading *g, const struct ical_event *v, const char *what)
{
    return error_set(g->e, ERR_INVALID, "line %zu: the RRULE %s", v->rule.line, what);
}

/* ---- property values ---- */

static bool ical_is_valid_time(struct icaltimetype t)
{
    return t.year >= ICAL_FIRST_YEAR && t.year <= ICAL_LAST_YEAR &&
           date_is_valid((struct date){ t.year, t.month, t.day }) && t.hour >= 0 && t.hour < 24 && t.minute >= 0 &&
           t.minute < 60 && t.second >= 0 && t.second <= 60;
}

static int64_t ical_second_of(struct icaltimetype t)
{
    struct civil c = { { t.year, t.month, t.day }, t.hour, t.minute, t.second };
    if (t.is_date)
        c = (struct civil){ .date = c.date };
    return civil_second(c);
}

/* The day of a civil second: in the calendar's zone if the time is UTC, otherwise as written. */
static int32_t ical_day_of(const struct ical_reading *g, bool utc, int64_t second)
{
    return (int32_t)day_of_second(utc && g->o->zone ? tz_local(g->o->zone, second) : second);
}

static icalproperty *ical_property(const struct ical_event *v, icalproperty_kind kind)
{
    return icalcomponent_get_first_property(v->component, kind);
}

/* The text of a property, unescaped by libical; valid as long as the component. */
static struct str ical_text_of(const struct ical_event *v, icalproperty_kind kind)
{
    icalproperty *p = ical_property(v, kind);
    icalvalue *value = p ? icalproperty_get_value(p) : NULL;
    const char *text = value && icalvalue_isa(value) == ICAL_TEXT_VALUE ? icalvalue_get_text(value) : NULL;
    return text ? str_from(text) : S("");
}

/* ---- one event ---- */

static enum err ical_read_length(struct ical_reading *g, struct ical_event *v, struct icaltimetype start)
{
    icalproperty *end = ical_property(v, ICAL_DTEND_PROPERTY), *duration = ical_property(v, ICAL_DURATION_PROPERTY);
    v->length_s = start.is_date ? DAY_S : 0;
    if (end) {
        struct icaltimetype t = icalproperty_get_dtend(end);
        if (!ical_is_valid_time(t))
            return ical_refuse_event(g, v, "has a DTEND that is not a date");
        bool other_utc = !t.is_date && !start.is_date && icaltime_is_utc(t) != icaltime_is_utc(start);
        v->length_s = other_utc ? v->length_s
                                : ical_second_of(t) -
                                      v->start; /* if one is in UTC and the other is not, only the first date counts */
    } else if (duration) {
        struct icaldurationtype d = icalproperty_get_duration(duration);
        v->length_s = ((int64_t)d.weeks * 7 + d.days) * DAY_S + (int64_t)d.hours * HOUR_S +
                      (int64_t)d.minutes * MINUTE_S + d.seconds;
        v->length_s = d.is_neg ? -v->length_s : v->length_s;
    }
    if (v->length_s < 0)
        return ical_refuse_event(g, v, "ends before it begins");
    if (v->length_s > (int64_t)CALENDAR_DATES_MAX * DAY_S)
        return ical_refuse_event(g, v, "lasts longer than a calendar covers");
    return ERR_OK;
}

/* libical drops properties that it cannot parse. The event would then mean other days than it says, so it is
 * refused. */
static enum err ical_check_complete(struct ical_reading *g, const struct ical_event *v, unsigned seen)
{
    for (size_t i = 0; i < array_count(used_properties); i++) {
        if (!(seen & 1U << i) || used_properties[i].is_text || ical_property(v, used_properties[i].kind))
            continue;
        char what[64];
        snprintf(what, sizeof what, "has a %s that cannot be read", used_properties[i].name);
        return ical_refuse_event(g, v, what);
    }
    return ERR_OK;
}

static enum err ical_read_event(struct ical_reading *g, struct ical_event *v, unsigned seen)
{
    if (!arena_str(g->a, str_utf8_cut(ical_text_of(v, ICAL_SUMMARY_PROPERTY), CALENDAR_TEXT_MAX), &v->name))
        return error_no_room(g->e);
    v->uid = hash_bytes(HASH_STABLE, ical_text_of(v, ICAL_UID_PROPERTY));
    icalproperty *start = ical_property(v, ICAL_DTSTART_PROPERTY), *id = ical_property(v, ICAL_RECURRENCEID_PROPERTY);
    if (ical_check_complete(g, v, seen))
        return ERR_INVALID;
    if (!start)
        return ical_refuse_event(g, v, "has no DTSTART");
    struct icaltimetype t = icalproperty_get_dtstart(start);
    if (!ical_is_valid_time(t))
        return ical_refuse_event(g, v, "has a DTSTART that is not a date between 1900 and 2200");
    v->utc = !t.is_date && icaltime_is_utc(t);
    v->start = ical_second_of(t);
    if (ical_read_length(g, v, t))
        return ERR_INVALID;
    v->is_override = id != NULL;
    if (!id)
        return ERR_OK;
    struct icaltimetype of = icalproperty_get_recurrenceid(id);
    if (!ical_is_valid_time(of))
        return ical_refuse_event(g, v, "has a RECURRENCE-ID that is not a date");
    bool utc = !of.is_date && icaltime_is_utc(of);
    g->overrides[g->override_count++] = (struct ical_override){ v->uid, ical_day_of(g, utc, ical_second_of(of)) };
    return ERR_OK;
}

static bool ical_is_cancelled(const struct ical_event *v)
{
    icalproperty *p = ical_property(v, ICAL_STATUS_PROPERTY);
    return p && icalproperty_get_status(p) == ICAL_STATUS_CANCELLED;
}

/* ---- the dates of an event ---- */

static int ical_compare_overrides(const void *a, const void *b)
{
    const struct ical_override *x = a, *y = b;
    if (x->uid != y->uid)
        return x->uid < y->uid ? -1 : 1;
    return (x->day > y->day) - (x->day < y->day);
}

static bool ical_is_overridden(const struct ical_reading *g, const struct ical_event *v, int32_t day)
{
    struct ical_override one = { v->uid, day };
    return !v->is_override && g->override_count &&
           bsearch(&one, g->overrides, g->override_count, sizeof one, ical_compare_overrides);
}

static int ical_compare_days(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Adds the dates that one occurrence covers. */
static enum err ical_add_occurrence(struct ical_reading *g, const struct ical_event *v, int64_t start)
{
    int32_t first = ical_day_of(g, v->utc, start),
            last = ical_day_of(g, v->utc, max_of(start + v->length_s - 1, start));
    for (int32_t day = first; day <= last; day++) {
        if (g->date_count == DATES_RAW_MAX)
            return error_set(g->e, ERR_LIMIT, "holds more than %d dates", CALENDAR_DATES_MAX);
        g->dates[g->date_count++] = (struct calendar_date){ day, v->name };
    }
    return ERR_OK;
}

struct ical_days {
    int32_t *v;
    size_t n;
};

static enum err ical_read_exdates(struct ical_reading *g, const struct ical_event *v, struct ical_days *ret)
{
    size_t n = (size_t)max_of(icalcomponent_count_properties(v->component, ICAL_EXDATE_PROPERTY), 0);
    *ret = (struct ical_days){ .v = arena_array(g->a, int32_t, n + 1) };
    if (!ret->v)
        return error_no_room(g->e);
    for (icalproperty *p = ical_property(v, ICAL_EXDATE_PROPERTY); p && ret->n < n;
         p = icalcomponent_get_next_property(v->component, ICAL_EXDATE_PROPERTY)) {
        struct icaltimetype t = icalproperty_get_exdate(p);
        if (!ical_is_valid_time(t))
            return ical_refuse_event(g, v, "has an EXDATE that is not a date");
        ret->v[ret->n++] = ical_day_of(g, !t.is_date && icaltime_is_utc(t), ical_second_of(t));
    }
    ret->n = calendar_sort(ret->v, ret->n);
    return ERR_OK;
}

static enum err ical_add_unless_excluded(struct ical_reading *g, const struct ical_event *v, const struct ical_days *ex,
                                         int64_t start)
{
    int32_t day = ical_day_of(g, v->utc, start);
    if (ex->n && bsearch(&day, ex->v, ex->n, sizeof day, ical_compare_days))
        return ERR_OK;
    return ical_is_overridden(g, v, day) ? ERR_OK : ical_add_occurrence(g, v, start);
}

static enum err ical_add_rdates(struct ical_reading *g, const struct ical_event *v, const struct ical_days *ex)
{
    for (icalproperty *p = ical_property(v, ICAL_RDATE_PROPERTY); p;
         p = icalcomponent_get_next_property(v->component, ICAL_RDATE_PROPERTY)) {
        struct icaldatetimeperiodtype t = icalproperty_get_rdate(p);
        struct icaltimetype at = icaltime_is_null_time(t.time) ? t.period.start : t.time;
        if (!ical_is_valid_time(at))
            return ical_refuse_event(g, v, "has an RDATE that is not a date");
        if (ical_add_unless_excluded(g, v, ex, ical_second_of(at)))
            return g->e->code;
    }
    return ERR_OK;
}

static bool ical_is_out_of_time(const struct ical_reading *g)
{
    return clock_steady_ns(g->o->clock) >= g->deadline_ns;
}

/* Whether the rule gives a date from start on, in the centuries that libical searches. UNTIL and COUNT say when it
 * ends, so they are left out. Unless BYSETPOS counts them, so are times of day: libical would try each of them on each
 * day. */
static bool ical_rule_gives_dates(struct icalrecurrencetype rule, struct icaltimetype start, bool with_positions)
{
    rule.until = icaltime_null_time();
    rule.count = 0;
    if (!with_positions) {
        for (int i = 0; i < 2; i++) /* libical writes the time of start over the first end mark */
            rule.by_second[i] = rule.by_minute[i] = rule.by_hour[i] = ICAL_RECURRENCE_ARRAY_MAX;
        rule.by_set_pos[0] = ICAL_RECURRENCE_ARRAY_MAX;
    }
    icalrecur_iterator *i = icalrecur_iterator_new(rule, start);
    bool gives = i && !icaltime_is_null_time(icalrecur_iterator_next(i));
    icalrecur_iterator_free(i);
    return gives;
}

static enum err ical_read_rule(struct ical_reading *g, const struct ical_event *v, icalproperty *p,
                               struct icaltimetype start, struct icalrecurrencetype *ret)
{
    struct icalrecurrencetype rule = icalproperty_get_rrule(p);
    if (rule.freq == ICAL_NO_RECURRENCE)
        return ical_refuse_rule(g, v, "cannot be read");
    if (rule.freq < ICAL_DAILY_RECURRENCE)
        return ical_refuse_rule(g, v, "repeats more than once a day, but a calendar holds whole days; change its FREQ");
    bool has_positions = rule.by_set_pos[0] != ICAL_RECURRENCE_ARRAY_MAX;
    if (!ical_rule_gives_dates(rule, start, false) || (has_positions && !ical_rule_gives_dates(rule, start, true))) {
        char what[256];
        cleanup_with(buf_release) struct buf parts;
        buf_init(&parts, sizeof what);
        ical_rule_days_text(&v->rule, &parts);
        snprintf(what, sizeof what, "never gives a date: no day fits all of DTSTART%s; change one of them",
                 buf_cstr(&parts));
        return ical_refuse_rule(g, v, what);
    }
    *ret = rule;
    return ERR_OK;
}

static enum err ical_add_repeats(struct ical_reading *g, const struct ical_event *v, const struct ical_days *ex,
                                 icalproperty *p)
{
    struct icalrecurrencetype rule;
    struct icaltimetype start = icalproperty_get_dtstart(ical_property(v, ICAL_DTSTART_PROPERTY));
    start.zone = NULL; /* repeats are in local time */
    if (ical_read_rule(g, v, p, start, &rule))
        return ERR_INVALID;
    icalrecur_iterator *i = icalrecur_iterator_new(rule, start);
    enum err rc = ERR_OK;
    while (i && rc == ERR_OK) {
        struct icaltimetype t = icalrecur_iterator_next(i);
        int32_t day = ical_is_valid_time(t) ? ical_day_of(g, v->utc, ical_second_of(t)) : INT32_MAX;
        if (day >= g->o->until_day)
            break;
        if (day >= g->o->from_day)
            rc = ical_add_unless_excluded(g, v, ex, ical_second_of(t));
        if (rc == ERR_OK && ical_is_out_of_time(g))
            rc = error_set(g->e, ERR_LIMIT, "line %zu: takes too long: its rules give too many dates, or none at all",
                           v->line);
    }
    icalrecur_iterator_free(i);
    return rc;
}

static enum err ical_add_dates(struct ical_reading *g, const struct ical_event *v)
{
    struct ical_days ex;
    if (ical_is_cancelled(v))
        return ERR_OK;
    if (ical_is_out_of_time(g))
        return error_set(g->e, ERR_LIMIT, "line %zu: takes too long: its rules give too many dates, or none at all",
                         v->line);
    if (ical_read_exdates(g, v, &ex) || ical_add_rdates(g, v, &ex))
        return g->e->code;
    icalproperty *rule = ical_property(v, ICAL_RRULE_PROPERTY);
    return rule ? ical_add_repeats(g, v, &ex, rule) : ical_add_unless_excluded(g, v, &ex, v->start);
}

/* ---- a rule as it is read ---- */

/* A line may be folded anywhere, also within a number. */
static void ical_unfold(struct str folded, struct buf *out)
{
    for (size_t i = 0; i < folded.n; i++) {
        bool breaks = folded.p[i] == '\r' || folded.p[i] == '\n';
        bool is_fold = i && folded.p[i - 1] == '\n';
        if (!breaks && !is_fold)
            buf_char(out, folded.p[i]);
    }
}

static enum err ical_check_rule(struct ical_reading *g, size_t line, struct str folded, struct ical_rule *ret)
{
    cleanup_with(buf_release) struct buf whole;
    buf_init(&whole, ICAL_EVENT_BYTES);
    ical_unfold(folded, &whole);
    if (ical_rule_check(buf_str(&whole), line, ret, g->e))
        return g->e->code;
    struct icalrecurrencetype rule = icalrecurrencetype_from_string(buf_cstr(&whole));
    if (rule.freq == ICAL_NO_RECURRENCE)
        return error_set(g->e, ERR_INVALID,
                         "line %zu: the RRULE cannot be read; write it as FREQ=YEARLY;BYMONTH=5, without blanks", line);
    return ERR_OK;
}

/* ---- the file ---- */

struct ical_splitter {
    struct ical_lines lines;
    struct buf event;          /* from BEGIN:VEVENT to END:VEVENT, reduced to the properties that are used */
    size_t depth, event_depth; /* of components; event_depth is 0 outside of an event */
    size_t event_line;
    struct ical_rule rule; /* of the event */
    unsigned seen;         /* bit i: the event has the property used_properties[i] */
    bool has_calendar;
};

static enum err ical_take_event(struct ical_reading *g, const struct ical_splitter *c)
{
    struct ical_event *v = &g->events[g->event_count];
    *v = (struct ical_event){ .line = c->event_line, .rule = c->rule };
    if (c->event.full)
        return ical_refuse_event(g, v, "is larger than 64 KiB");
    v->component = icalparser_parse_string(buf_cstr(&c->event));
    if (!v->component)
        return ical_refuse_event(g, v, "cannot be read");
    g->event_count++;
    if (icalcomponent_isa(v->component) != ICAL_VEVENT_COMPONENT)
        return ical_refuse_event(g, v, "cannot be read");
    return ical_read_event(g, v, c->seen);
}

static enum err ical_open_component(struct ical_reading *g, struct ical_splitter *c, struct str kind)
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

static enum err ical_close_component(struct ical_reading *g, struct ical_splitter *c)
{
    if (c->depth == 0)
        return error_set(g->e, ERR_INVALID, "line %zu: END without its BEGIN", c->lines.number);
    bool ends_event = c->depth-- == c->event_depth;
    if (!ends_event)
        return ERR_OK;
    c->event_depth = 0;
    buf_text(&c->event, "END:VEVENT\r\n");
    return ical_take_event(g, c);
}

static enum err ical_take_line(struct ical_reading *g, struct ical_splitter *c, struct str line)
{
    struct str name = ical_property_name(line);
    if (str_trim(ical_property_name(line)).n == 0 && ical_property_value(line).n == 0)
        return ERR_OK;
    if (str_eq_nocase(name, S("BEGIN")))
        return ical_open_component(g, c, str_trim(ical_property_value(line)));
    if (str_eq_nocase(name, S("END")))
        return ical_close_component(g, c);
    if (c->depth == 0)
        return error_set(g->e, ERR_INVALID, "line %zu: must begin with BEGIN:VCALENDAR", c->lines.number);
    if (c->depth == 1 && str_eq_nocase(name, S("X-WR-CALNAME")) &&
        !arena_str(g->a, str_utf8_cut(ical_property_value(line), CALENDAR_TEXT_MAX), &g->calendar_name))
        return error_no_room(g->e);
    size_t row = c->event_depth == c->depth ? ical_find_property(name) : array_count(used_properties);
    if (row < array_count(used_properties)) {
        bool is_rule = used_properties[row].kind == ICAL_RRULE_PROPERTY;
        if (is_rule && c->seen & 1U << row)
            return error_set(g->e, ERR_INVALID,
                             "line %zu: a second RRULE is not supported; give it an event of its own", c->lines.number);
        if (is_rule && ical_check_rule(g, c->lines.number, ical_property_value(line), &c->rule))
            return g->e->code;
        c->seen |= 1U << row;
        buf_add(&c->event, line);
        if (line.p[line.n - 1] != '\n')
            buf_char(&c->event, '\n');
    }
    return ERR_OK;
}

static enum err ical_split(struct ical_reading *g, struct str text)
{
    struct ical_splitter c = { .lines = { .rest = text } };
    struct str line;
    enum err rc = ERR_OK;
    buf_init(&c.event, ICAL_EVENT_BYTES);
    while (rc == ERR_OK && ical_next_line(&c.lines, &line))
        rc = ical_take_line(g, &c, line);
    buf_release(&c.event);
    if (rc == ERR_OK && !c.has_calendar)
        return error_set(g->e, ERR_INVALID, "is empty: an iCalendar file begins with BEGIN:VCALENDAR");
    if (rc == ERR_OK && c.depth)
        return error_set(g->e, ERR_INVALID, "ends within a component: is it the whole file?");
    return rc;
}

static int ical_compare_dates(const void *a, const void *b)
{
    const struct calendar_date *x = a, *y = b;
    if (x->day != y->day)
        return x->day < y->day ? -1 : 1;
    return (x->name.n == 0) - (y->name.n == 0); /* a date with a name sorts first */
}

static enum err ical_collect_dates(struct ical_reading *g, struct ical_dates *ret)
{
    size_t n = 0;
    if (g->date_count)
        qsort(g->dates, g->date_count, sizeof *g->dates, ical_compare_dates);
    for (size_t i = 0; i < g->date_count; i++)
        if (n == 0 || g->dates[i].day != g->dates[n - 1].day)
            g->dates[n++] = g->dates[i];
    if (n > CALENDAR_DATES_MAX)
        return error_set(g->e, ERR_LIMIT, "holds more than %d dates", CALENDAR_DATES_MAX);
    *ret = (struct ical_dates){ g->calendar_name, g->dates, n };
    return ERR_OK;
}

static enum err ical_read_events(struct ical_reading *g, struct str text, struct ical_dates *ret)
{
    g->events = arena_array(g->a, struct ical_event, ICAL_EVENTS_MAX);
    g->overrides = arena_array(g->a, struct ical_override, OVERRIDES_MAX);
    g->dates = arena_array(g->a, struct calendar_date, DATES_RAW_MAX);
    if (!g->events || !g->overrides || !g->dates)
        return error_no_room(g->e);
    enum err rc = ical_split(g, text);
    if (g->override_count)
        qsort(g->overrides, g->override_count, sizeof *g->overrides, ical_compare_overrides);
    for (size_t i = 0; rc == ERR_OK && i < g->event_count; i++)
        rc = ical_add_dates(g, &g->events[i]);
    for (size_t i = 0; i < g->event_count; i++)
        icalcomponent_free(g->events[i].component);
    return rc ? rc : ical_collect_dates(g, ret);
}

/* libical's settings are global to the process, so they are set once. */
static void ical_init_once(void)
{
    icalerror_set_errors_are_fatal(0);
}

enum err ical_read(struct str text, const struct ical_options *o, struct arena *a, struct ical_dates *ret,
                   struct error *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ical_init_once);
    struct error why = { 0 };
    enum err rc = ERR_OK;
    if (str_starts(text, S("\xEF\xBB\xBF")))
        text = str_sub(text, 3, text.n);
    if (text.n > ICAL_TEXT_MAX)
        rc = error_set(&why, ERR_LIMIT, "is larger than %d MiB", ICAL_TEXT_MAX >> 20);
    else if (!str_is_utf8(text) || memchr(text.p, '\0', text.n))
        rc = error_set(&why, ERR_INVALID, "is not UTF-8 text");
    struct ical_reading g = {
        .o = o, .a = a, .e = &why, .deadline_ns = clock_steady_ns(o->clock) + (int64_t)ICAL_TIME_MAX_MS * NS_PER_MS
    };
    if (rc == ERR_OK)
        rc = ical_read_events(&g, text, ret);
    if (rc && e)
        *e = why;
    return rc;
}
