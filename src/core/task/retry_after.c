/* Parses Retry-After of RFC 9110: a number of seconds, or a date in the current form or one of the two obsolete forms:
 *
 *   Sun, 06 Nov 1994 08:49:37 GMT      Sunday, 06-Nov-94 08:49:37 GMT      Sun Nov  6 08:49:37 1994
 *
 * Each form is a pattern: d is a digit (the first of two may be a blank), m the name of a month, w the letters of a
 * weekday; other characters stand for themselves. The numbers are stored in the fields of `order`. */
#include "core/task/retry_after.h"

enum retry_after_field { YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, FIELD_COUNT };

static const struct retry_after_form {
    const char *pattern;
    enum retry_after_field order[FIELD_COUNT]; /* of the numbers */
} forms[] = {
    { "w, dd m dddd dd:dd:dd GMT", { DAY, YEAR, HOUR, MINUTE, SECOND } },
    { "w, dd-m-dd dd:dd:dd GMT", { DAY, YEAR, HOUR, MINUTE, SECOND } },
    { "w m dd dd:dd:dd dddd", { DAY, HOUR, MINUTE, SECOND, YEAR } },
};

static bool retry_after_read_month(struct str s, size_t *at, int *ret)
{
    static const char names[] = "janfebmaraprmayjunjulaugsepoctnovdec";
    if (s.n - *at < 3)
        return false;
    for (int m = 0; m < 12; m++) {
        if (str_eq_nocase(str_sub(s, *at, *at + 3), (struct str){ names + m * 3, 3 })) {
            *at += 3;
            *ret = m + 1;
            return true;
        }
    }
    return false;
}

/* Reads as many digits as the pattern has d. */
static bool retry_after_read_number(struct str s, size_t *at, const char **pattern, int *ret)
{
    int v = 0;
    for (bool first = true; **pattern == 'd'; (*pattern)++, (*at)++, first = false) {
        if (*at == s.n || !(is_digit(s.p[*at]) || (first && s.p[*at] == ' ')))
            return false;
        v = v * 10 + (s.p[*at] == ' ' ? 0 : s.p[*at] - '0');
    }
    *ret = v;
    return true;
}

static bool retry_after_match(const struct retry_after_form *form, struct str s, int f[FIELD_COUNT])
{
    size_t at = 0;
    const enum retry_after_field *next = form->order;
    for (const char *p = form->pattern; *p;) {
        if (*p == 'd') {
            if (!retry_after_read_number(s, &at, &p, &f[*next++]))
                return false;
        } else if (*p == 'm') {
            if (!retry_after_read_month(s, &at, &f[MONTH]))
                return false;
            p++;
        } else if (*p == 'w') {
            for (p++; at < s.n && is_alpha(s.p[at]);)
                at++;
        } else if (at == s.n || s.p[at++] != *p++) {
            return false;
        }
    }
    return at == s.n;
}

/* A two-digit year is the one within fifty years of now (RFC 9110, 5.6.7). */
static int retry_after_full_year(int year, int64_t now_ms)
{
    int this_year = civil_of(floor_div(now_ms, 1000)).date.year;
    int guess = this_year - this_year % 100 + year;
    return guess > this_year + 50 ? guess - 100 : guess < this_year - 49 ? guess + 100 : guess;
}

static bool retry_after_parse_date(struct str s, int64_t now_ms, int64_t *ret_ms)
{
    for (size_t i = 0; i < array_count(forms); i++) {
        int f[FIELD_COUNT] = { 0 };
        if (!retry_after_match(&forms[i], s, f))
            continue;
        if (f[YEAR] < 100)
            f[YEAR] = retry_after_full_year(f[YEAR], now_ms);
        struct civil c = {
            .date = { f[YEAR], f[MONTH], f[DAY] }, .hour = f[HOUR], .minute = f[MINUTE], .second = f[SECOND]
        };
        if (!date_is_valid(c.date) || c.hour > 23 || c.minute > 59 || c.second > 60)
            return false;
        *ret_ms = civil_second(c) * 1000;
        return true;
    }
    return false;
}

int64_t retry_after_ms(struct str value, int64_t now_ms)
{
    value = str_trim(value);
    int64_t at_ms, seconds = 0;
    size_t digits = 0;
    for (; digits < value.n && is_digit(value.p[digits]); digits++)
        seconds = min_of(seconds * 10 + (value.p[digits] - '0'), RETRY_AFTER_MAX_MS / 1000);
    if (digits && digits == value.n)
        return seconds * 1000;
    if (!retry_after_parse_date(value, now_ms, &at_ms))
        return -1;
    return max_of(min_of(at_ms - now_ms, RETRY_AFTER_MAX_MS), 0);
}
