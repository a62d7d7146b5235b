/* The table lists the numbers of a timestamp: the separator before each, its digits and its range. Rules over several
 * numbers (the days of a month, leap seconds, the year in UTC) are checked after all numbers are read. */
#include "base/rfc3339.h"

#include <stdio.h>

enum { YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, OFFSET_HOUR, OFFSET_MINUTE, NUMBER_COUNT };

static const struct rfc3339_number {
    const char *name;
    char before; /* 0: none, or already read by the caller */
    int digits;
    int min, max;
} numbers[NUMBER_COUNT] = {
    [YEAR] = { "year", 0, 4, 0, 9999 },
    [MONTH] = { "month", '-', 2, 1, 12 },
    [DAY] = { "day", '-', 2, 1, 31 },
    [HOUR] = { "hour", 0, 2, 0, 23 },
    [MINUTE] = { "minute", ':', 2, 0, 59 },
    [SECOND] = { "second", ':', 2, 0, 60 }, /* 60: a leap second */
    [OFFSET_HOUR] = { "offset hour", 0, 2, 0, 23 },
    [OFFSET_MINUTE] = { "offset minute", ':', 2, 0, 59 },
};

struct rfc3339_reader {
    struct str text;
    size_t at;
    int values[NUMBER_COUNT];
    int ms;
    int64_t offset_s;
};

/* The next character, or NUL at the end of the text. No rule accepts NUL. */
static char rfc3339_peek(const struct rfc3339_reader *r)
{
    return r->at < r->text.n ? r->text.p[r->at] : '\0';
}

static enum err rfc3339_refuse(const struct rfc3339_reader *r, const char *wanted, struct error *e)
{
    char shown[STR_CHAR_TEXT];
    if (r->text.n == 0)
        return error_set(e, ERR_INVALID, "is empty: write it like 2026-02-10T08:00:00Z");
    if (r->at == r->text.n)
        return error_set(e, ERR_INVALID, "ends where %s is expected: write it like 2026-02-10T08:00:00Z", wanted);
    return error_set(e, ERR_INVALID,
                     "has %s at character %zu, where %s is expected: write it like 2026-02-10T08:00:00Z",
                     str_show_char(r->text.p[r->at], shown), r->at + 1, wanted);
}

static enum err rfc3339_refuse_no_digit(const struct rfc3339_reader *r, const struct rfc3339_number *n, struct error *e)
{
    char wanted[48];
    snprintf(wanted, sizeof wanted, "the %s (%d digits)", n->name, n->digits);
    return rfc3339_refuse(r, wanted, e);
}

static enum err rfc3339_read_number(struct rfc3339_reader *r, int which, struct error *e)
{
    const struct rfc3339_number *n = &numbers[which];
    if (n->before && rfc3339_peek(r) != n->before)
        return rfc3339_refuse(r, n->before == '-' ? "'-'" : "':'", e);
    r->at += n->before != 0;
    int value = 0;
    for (int i = 0; i < n->digits; i++, r->at++) {
        if (!is_digit(rfc3339_peek(r)))
            return rfc3339_refuse_no_digit(r, n, e);
        value = value * 10 + rfc3339_peek(r) - '0';
    }
    if (value < n->min || value > n->max)
        return error_set(e, ERR_INVALID, "has %s %02d, which is not between %02d and %02d", n->name, value, n->min,
                         which == SECOND ? 59 : n->max);
    r->values[which] = value;
    return ERR_OK;
}

static enum err rfc3339_check_day(const int *values, struct error *e)
{
    static const char *const names[] = { "January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December" };
    int year = values[YEAR], month = values[MONTH], day = values[DAY];
    if (day <= days_in_month(year, month))
        return ERR_OK;
    if (month == 2 && day == 29)
        return error_set(e, ERR_INVALID, "has day 29, which does not exist in February %04d", year);
    return error_set(e, ERR_INVALID, "has day %d, which does not exist in %s", day, names[month - 1]);
}

static enum err rfc3339_read_separator(struct rfc3339_reader *r, struct error *e)
{
    if (r->at == r->text.n)
        return error_set(e, ERR_INVALID, "needs a time after the date: " STR_FMT "T08:00:00Z", STR_ARG(r->text));
    char c = rfc3339_peek(r);
    if (c != 'T' && c != 't' && c != ' ')
        return rfc3339_refuse(r, "'T'", e);
    r->at++;
    return ERR_OK;
}

static enum err rfc3339_read_fraction(struct rfc3339_reader *r, struct error *e)
{
    if (rfc3339_peek(r) != '.')
        return ERR_OK;
    r->at++;
    int digits = 0;
    for (; is_digit(rfc3339_peek(r)); r->at++, digits++)
        if (digits < 3)
            r->ms = r->ms * 10 + rfc3339_peek(r) - '0';
    if (digits == 0)
        return rfc3339_refuse(r, "a digit of the fraction", e);
    if (digits > 9)
        return error_set(e, ERR_INVALID, "has %d digits after the decimal point: use at most 9", digits);
    for (; digits < 3; digits++)
        r->ms *= 10;
    return ERR_OK;
}

static enum err rfc3339_read_offset(struct rfc3339_reader *r, struct error *e)
{
    if (r->at == r->text.n)
        return error_set(e, ERR_INVALID, "needs an offset: 'Z' or '+01:00'");
    char sign = rfc3339_peek(r);
    if (sign != 'Z' && sign != 'z' && sign != '+' && sign != '-')
        return rfc3339_refuse(r, "an offset, 'Z' or '+01:00',", e);
    r->at++;
    if (sign == 'Z' || sign == 'z')
        return ERR_OK;
    if (rfc3339_read_number(r, OFFSET_HOUR, e) || rfc3339_read_number(r, OFFSET_MINUTE, e))
        return ERR_INVALID;
    int64_t size = r->values[OFFSET_HOUR] * HOUR_S + r->values[OFFSET_MINUTE] * MINUTE_S;
    r->offset_s = sign == '-' ? -size : size;
    return ERR_OK;
}

static enum err rfc3339_read(struct rfc3339_reader *r, struct error *e)
{
    for (int i = YEAR; i <= DAY; i++)
        if (rfc3339_read_number(r, i, e))
            return ERR_INVALID;
    if (rfc3339_check_day(r->values, e) || rfc3339_read_separator(r, e))
        return ERR_INVALID;
    for (int i = HOUR; i <= SECOND; i++)
        if (rfc3339_read_number(r, i, e))
            return ERR_INVALID;
    if (rfc3339_read_fraction(r, e) || rfc3339_read_offset(r, e))
        return ERR_INVALID;
    return r->at == r->text.n ? ERR_OK : rfc3339_refuse(r, "the end", e);
}

enum err rfc3339_parse(struct str text, int64_t *ret_ms, struct error *e)
{
    struct rfc3339_reader r = { .text = text };
    if (rfc3339_read(&r, e))
        return ERR_INVALID;
    const int *v = r.values;
    struct civil local = { { v[YEAR], v[MONTH], v[DAY] }, v[HOUR], v[MINUTE], v[SECOND] };
    int64_t second = civil_second(local) - r.offset_s; /* second 60 is second 0 of the next minute */
    struct civil utc = civil_of(second);
    if (v[SECOND] == 60 && (utc.date.day != 1 || utc.hour != 0 || utc.minute != 0))
        return error_set(e, ERR_INVALID,
                         "has second 60, which exists only as a leap second, at 23:59:60 UTC on a month's last day");
    if (!date_is_valid(utc.date))
        return error_set(e, ERR_INVALID, "is outside the years 0000 to 9999 in UTC");
    *ret_ms = second * 1000 + r.ms;
    return ERR_OK;
}

/* Writes the number's digits so that the last one precedes `end`. The buffer holds zeros already. */
static void rfc3339_put_digits(char *end, int number)
{
    for (; number; number /= 10)
        *--end = (char)('0' + number % 10);
}

void rfc3339_format(int64_t ms, char out[RFC3339_TEXT + 1])
{
    ms = max_of((int64_t)YEAR_0_MS, min_of(ms, (int64_t)YEAR_9999_END_MS));
    struct civil c = civil_of(floor_div(ms, 1000));
    memcpy(out, "0000-00-00T00:00:00.000Z", RFC3339_TEXT + 1);
    rfc3339_put_digits(out + 4, c.date.year);
    rfc3339_put_digits(out + 7, c.date.month);
    rfc3339_put_digits(out + 10, c.date.day);
    rfc3339_put_digits(out + 13, c.hour);
    rfc3339_put_digits(out + 16, c.minute);
    rfc3339_put_digits(out + 19, c.second);
    rfc3339_put_digits(out + 23, (int)floor_mod(ms, 1000));
}
