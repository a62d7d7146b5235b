/* The scanner stops at a character that it does not know; its caller decides whether that is an error. Every number has
 * at most three digits, so nothing here can overflow. */
#include "core/time/tz_rule.h"

#include "base/date.h"

enum {
    NAME_MIN = 3,
    OFFSET_HOURS_MAX = 24,
    TIME_HOURS_MAX = 24,
    TIME_HOURS_EXTENDED = 167,
    TIME_DEFAULT_S = 2 * HOUR_S
};

struct tz_rule_scanner {
    struct str text;
    size_t at;
    bool extended;
};

static char tz_rule_peek(const struct tz_rule_scanner *s)
{
    return s->at < s->text.n ? s->text.p[s->at] : '\0';
}

static bool tz_rule_accept(struct tz_rule_scanner *s, char c)
{
    if (s->at >= s->text.n || s->text.p[s->at] != c)
        return false;
    s->at++;
    return true;
}

/* Reads 1 to `digits` digits, within [min, max]. */
static bool tz_rule_scan_number(struct tz_rule_scanner *s, int digits, int min, int max, int *ret)
{
    int v = 0, n = 0;
    for (; n < digits && s->at + (size_t)n < s->text.n && is_digit(s->text.p[s->at + (size_t)n]); n++)
        v = v * 10 + (s->text.p[s->at + (size_t)n] - '0');
    if (n == 0 || v < min || v > max)
        return false;
    s->at += (size_t)n;
    *ret = v;
    return true;
}

/* Reads EST, or <+0330>: the brackets allow digits and signs. */
static bool tz_rule_scan_name(struct tz_rule_scanner *s, struct str *ret)
{
    bool quoted = tz_rule_accept(s, '<');
    size_t from = s->at;
    while (is_alpha(tz_rule_peek(s)) ||
           (quoted && (is_digit(tz_rule_peek(s)) || tz_rule_peek(s) == '+' || tz_rule_peek(s) == '-')))
        s->at++;
    *ret = str_sub(s->text, from, s->at);
    return ret->n >= NAME_MIN && (!quoted || tz_rule_accept(s, '>'));
}

/* Reads [+-]hh[:mm[:ss]] as seconds. */
static bool tz_rule_scan_time(struct tz_rule_scanner *s, int hours_max, bool sign_allowed, int32_t *ret)
{
    int hours, minutes = 0, seconds = 0, sign = 1;
    if (sign_allowed && !tz_rule_accept(s, '+') && tz_rule_accept(s, '-'))
        sign = -1;
    if (!tz_rule_scan_number(s, hours_max > 99 ? 3 : 2, 0, hours_max, &hours))
        return false;
    if (tz_rule_accept(s, ':')) {
        if (!tz_rule_scan_number(s, 2, 0, 59, &minutes))
            return false;
        if (tz_rule_accept(s, ':') && !tz_rule_scan_number(s, 2, 0, 59, &seconds))
            return false;
    }
    *ret = sign * (hours * HOUR_S + minutes * MINUTE_S + seconds);
    return true;
}

/* POSIX offsets are positive west of Greenwich. */
static bool tz_rule_scan_offset(struct tz_rule_scanner *s, int32_t *ret)
{
    int32_t west;
    if (!tz_rule_scan_time(s, OFFSET_HOURS_MAX, true, &west))
        return false;
    *ret = -west;
    return true;
}

static bool tz_rule_scan_day(struct tz_rule_scanner *s, struct tz_rule_edge *edge)
{
    if (tz_rule_accept(s, 'J')) {
        edge->kind = TZ_EDGE_JULIAN;
        return tz_rule_scan_number(s, 3, 1, 365, &edge->day);
    }
    if (tz_rule_accept(s, 'M')) {
        edge->kind = TZ_EDGE_WEEKDAY;
        return tz_rule_scan_number(s, 2, 1, 12, &edge->month) && tz_rule_accept(s, '.') &&
               tz_rule_scan_number(s, 1, 1, 5, &edge->week) && tz_rule_accept(s, '.') &&
               tz_rule_scan_number(s, 1, 0, 6, &edge->day);
    }
    edge->kind = TZ_EDGE_DAY;
    return tz_rule_scan_number(s, 3, 0, 365, &edge->day);
}

/* Reads ,day[/time] */
static bool tz_rule_scan_edge(struct tz_rule_scanner *s, struct tz_rule_edge *edge)
{
    if (!tz_rule_accept(s, ',') || !tz_rule_scan_day(s, edge))
        return false;
    edge->time_s = TIME_DEFAULT_S;
    return !tz_rule_accept(s, '/') ||
           tz_rule_scan_time(s, s->extended ? TIME_HOURS_EXTENDED : TIME_HOURS_MAX, s->extended, &edge->time_s);
}

static bool tz_rule_scan_daylight(struct tz_rule_scanner *s, struct tz_rule *r)
{
    r->has_daylight = true;
    if (!tz_rule_scan_name(s, &r->daylight.abbreviation))
        return false;
    r->daylight.offset_s = r->standard.offset_s + HOUR_S;
    if (tz_rule_peek(s) != ',' && !tz_rule_scan_offset(s, &r->daylight.offset_s))
        return false;
    return tz_rule_scan_edge(s, &r->start) && tz_rule_scan_edge(s, &r->end);
}

enum err tz_rule_parse(struct str text, bool extended, struct tz_rule *ret, struct error *e)
{
    struct tz_rule_scanner s = { .text = text, .extended = extended };
    struct tz_rule r = { 0 };
    bool good = tz_rule_scan_name(&s, &r.standard.abbreviation) && tz_rule_scan_offset(&s, &r.standard.offset_s) &&
                (s.at == text.n || tz_rule_scan_daylight(&s, &r));
    if (!good || s.at != text.n)
        return error_set(e, ERR_CORRUPT, "its rule is not a POSIX TZ string (wrong at character %zu)", s.at + 1);
    *ret = r;
    return ERR_OK;
}

/* The n-th such weekday of the month; week 5 means the last one, even if it is the fourth. */
static int64_t tz_rule_nth_weekday(int year, const struct tz_rule_edge *edge)
{
    int64_t first = day_number((struct date){ year, edge->month, 1 });
    int day = (edge->day - weekday_of(first) + 7) % 7 + (edge->week - 1) * 7;
    if (day >= days_in_month(year, edge->month))
        day -= 7;
    return first + day;
}

static int64_t tz_rule_edge_day(int year, const struct tz_rule_edge *edge)
{
    int64_t new_year = day_number((struct date){ year, 1, 1 });
    switch (edge->kind) {
    case TZ_EDGE_JULIAN: return new_year + edge->day - 1 + (is_leap_year(year) && edge->day >= 60); /* J60 is 1 March */
    case TZ_EDGE_DAY: return new_year + edge->day;
    default: return tz_rule_nth_weekday(year, edge);
    }
}

static int64_t tz_rule_edge_instant(int year, const struct tz_rule_edge *edge, const struct tz_rule_clock *before)
{
    return tz_rule_edge_day(year, edge) * DAY_S + edge->time_s - before->offset_s;
}

struct tz_daylight tz_rule_daylight(const struct tz_rule *r, int year)
{
    int64_t from = tz_rule_edge_instant(year, &r->start, &r->standard);
    int64_t until = tz_rule_edge_instant(year, &r->end, &r->daylight);
    while (until <= from) /* once on the southern hemisphere; twice if its times reach over the new year */
        until = tz_rule_edge_instant(++year, &r->end, &r->daylight);
    return (struct tz_daylight){ from, until };
}
