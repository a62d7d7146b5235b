/* The table lists the units, largest first. duration_parse accepts only units that stand further down the table than
 * the previous one, so each unit occurs at most once and in order. */
#include "base/duration.h"

#include <assert.h>
#include <stdio.h>

#include "base/date.h"

static const struct duration_unit {
    struct str name;
    int64_t ms;
} units[] = {
    { { "w", 1 }, 7 * DAY_MS }, { { "d", 1 }, DAY_MS }, { { "h", 1 }, 3600000 },
    { { "m", 1 }, 60000 },      { { "s", 1 }, 1000 },   { { "ms", 2 }, 1 },
};
enum { UNIT_COUNT = array_count(units), PRINTED_FROM = 1 /* weeks are parsed but not printed: 7d, not 1w */ };

static struct str duration_run_of(struct str text, size_t from, bool (*belongs)(char))
{
    size_t to = from;
    while (to < text.n && belongs(text.p[to]))
        to++;
    return str_sub(text, from, to);
}

static size_t duration_unit_index(struct str name)
{
    size_t i = 0;
    while (i < UNIT_COUNT && !str_eq(units[i].name, name))
        i++;
    return i;
}

static enum err duration_refuse_no_number(struct str text, size_t at, struct error *e)
{
    char shown[STR_CHAR_TEXT];
    if (text.n == 0)
        return error_set(e, ERR_INVALID, "is empty: write it like 90s, 15m, 1h30m or 7d");
    if (at == 0 && text.p[0] == '-')
        return error_set(e, ERR_INVALID, "must not be negative: write it like 90s, 15m, 1h30m or 7d");
    return error_set(e, ERR_INVALID, "has %s at character %zu, where a number is expected: write it like 1h30m",
                     str_show_char(text.p[at], shown), at + 1);
}

/* The number has no unit. c is the character that follows it, or NUL at the end of the text. `after` is the previous
 * unit, or NULL. */
static enum err duration_refuse_no_unit(struct str number, char c, const struct duration_unit *after, struct error *e)
{
    char shown[STR_CHAR_TEXT], digits[24];
    snprintf(digits, sizeof digits, STR_FMT, (int)min_of(number.n, 20), number.p);
    if (c == '.' || c == ',')
        return error_set(e, ERR_INVALID, "takes whole numbers only: 1h30m, not 1.5h");
    if (c != '\0')
        return error_set(e, ERR_INVALID, "has %s after '%s', where a unit is expected: w, d, h, m, s or ms",
                         str_show_char(c, shown), digits);
    if (!after)
        return error_set(e, ERR_INVALID, "'%s' needs a unit: %ss, %sm, %sh or %sd", digits, digits, digits, digits,
                         digits);
    return error_set(e, ERR_INVALID, "'%s' after '%s' needs a unit too, as in 1h30m", digits, after->name.p);
}

static enum err duration_refuse_unit(struct str name, const struct duration_unit *after, size_t i, struct error *e)
{
    if (i == UNIT_COUNT)
        return error_set(e, ERR_INVALID, "'" STR_FMT "' is not a unit: use w, d, h, m, s or ms",
                         (int)min_of(name.n, 20), name.p);
    if (after == &units[i])
        return error_set(e, ERR_INVALID, "has '%s' twice: add the two numbers", after->name.p);
    return error_set(e, ERR_INVALID, "has '%s' after '%s': larger units come first, as in 1h30m", units[i].name.p,
                     after->name.p);
}

static enum err duration_refuse_too_long(struct error *e)
{
    return error_set(e, ERR_INVALID, "is longer than %lldd, a century", DURATION_MAX_MS / DAY_MS);
}

enum err duration_parse(struct str text, int64_t *ret_ms, struct error *e)
{
    int64_t total = 0;
    const struct duration_unit *after = NULL;
    size_t at = 0;
    do {
        struct str number = duration_run_of(text, at, is_digit);
        struct str name = duration_run_of(text, at + number.n, is_alpha);
        if (number.n == 0)
            return duration_refuse_no_number(text, at, e);
        at += number.n;
        if (name.n == 0)
            return duration_refuse_no_unit(number, at < text.n ? text.p[at] : '\0', after, e);
        at += name.n;
        size_t i = duration_unit_index(name);
        if (i == UNIT_COUNT || (after && &units[i] <= after))
            return duration_refuse_unit(name, after, i, e);
        int64_t count;
        if (!str_to_i64(number, 0, (DURATION_MAX_MS - total) / units[i].ms, &count))
            return duration_refuse_too_long(e);
        total += count * units[i].ms;
        after = &units[i];
    } while (at < text.n);
    *ret_ms = total;
    return ERR_OK;
}

void duration_format(int64_t ms, char out[DURATION_TEXT])
{
    assert(ms >= 0);
    if (ms == 0) {
        snprintf(out, DURATION_TEXT, "0s");
        return;
    }
    int n = 0;
    for (size_t i = PRINTED_FROM; i < UNIT_COUNT; i++) {
        int64_t count = ms / units[i].ms;
        if (count)
            n += snprintf(out + n, DURATION_TEXT - (size_t)n, "%lld%s", (long long)count, units[i].name.p);
        ms %= units[i].ms;
    }
}
