#include "platform/ical_rule.h"

#include <stdio.h>

#include "base/date.h"
#include "base/sentence.h"

/* ---- parts ---- */

enum {
    RULE_FREQ,
    RULE_UNTIL,
    RULE_COUNT,
    RULE_INTERVAL,
    RULE_WKST,
    RULE_BYSECOND,
    RULE_BYMINUTE,
    RULE_BYHOUR,
    RULE_BYDAY,
    RULE_BYMONTHDAY,
    RULE_BYYEARDAY,
    RULE_BYWEEKNO,
    RULE_BYMONTH,
    RULE_BYSETPOS,
    RULE_NTH,   /* not a part: BYDAY has a number */
    RULE_SIXTH, /* not a part: BYDAY has a number above WEEKDAYS_OF_MONTH */
    WEEKDAYS_OF_MONTH = 5,
    INTERVAL_MAX = 32767, /* of libical */
    TIMES_MAX = 24,       /* of a day: libical tries each on every day, and cannot be interrupted */
};

enum { FREQ_SECONDLY, FREQ_MINUTELY, FREQ_HOURLY, FREQ_DAILY, FREQ_WEEKLY, FREQ_MONTHLY, FREQ_YEARLY };

#define SET(member) (1U << (member))

static const char *const rule_frequencies[] = {
    [FREQ_SECONDLY] = "SECONDLY", [FREQ_MINUTELY] = "MINUTELY", [FREQ_HOURLY] = "HOURLY", [FREQ_DAILY] = "DAILY",
    [FREQ_WEEKLY] = "WEEKLY",     [FREQ_MONTHLY] = "MONTHLY",   [FREQ_YEARLY] = "YEARLY", NULL
};
static const char *const rule_weekdays[] = { "SU", "MO", "TU", "WE", "TH", "FR", "SA", NULL };

/* The values that RFC 5545 allows. */
static const struct rule_part {
    const char *name;
    int min, max;             /* of the number; max 0: has none */
    bool is_signed;           /* from the end, too: -1 is the last */
    const char *const *words; /* a value ends in one of these */
    const char *hint;
} rule_parts[] = {
    [RULE_FREQ] = { "FREQ", 0, 0, false, rule_frequencies, "DAILY, WEEKLY, MONTHLY or YEARLY" },
    [RULE_UNTIL] = { "UNTIL", 0, 0, false, NULL, "a date such as 20261231, or 20261231T235959Z" },
    [RULE_COUNT] = { "COUNT", 1, INT32_MAX, false, NULL, "" },
    [RULE_INTERVAL] = { "INTERVAL", 1, INTERVAL_MAX, false, NULL, "" },
    [RULE_WKST] = { "WKST", 0, 0, false, rule_weekdays, "a weekday such as MO" },
    [RULE_BYSECOND] = { "BYSECOND", 0, 60, false, NULL, "" },
    [RULE_BYMINUTE] = { "BYMINUTE", 0, 59, false, NULL, "" },
    [RULE_BYHOUR] = { "BYHOUR", 0, 23, false, NULL, "" },
    [RULE_BYDAY] = { "BYDAY", 1, 53, true, rule_weekdays, ", before a weekday such as MO" },
    [RULE_BYMONTHDAY] = { "BYMONTHDAY", 1, 31, true, NULL, "" },
    [RULE_BYYEARDAY] = { "BYYEARDAY", 1, 366, true, NULL, "" },
    [RULE_BYWEEKNO] = { "BYWEEKNO", 1, 53, true, NULL, "" },
    [RULE_BYMONTH] = { "BYMONTH", 1, 12, false, NULL, "" },
    [RULE_BYSETPOS] = { "BYSETPOS", 1, 366, true, NULL, "" },
};

enum {
    DAY_PARTS = SET(RULE_INTERVAL) | SET(RULE_BYDAY) | SET(RULE_BYMONTHDAY) | SET(RULE_BYYEARDAY) | SET(RULE_BYWEEKNO) |
                SET(RULE_BYMONTH) | SET(RULE_BYSETPOS),
    BY_PARTS = SET(RULE_BYSECOND) | SET(RULE_BYMINUTE) | SET(RULE_BYHOUR) | SET(RULE_BYDAY) | SET(RULE_BYMONTHDAY) |
               SET(RULE_BYYEARDAY) | SET(RULE_BYWEEKNO) | SET(RULE_BYMONTH),
    TIME_PARTS = SET(RULE_BYSECOND) | SET(RULE_BYMINUTE) | SET(RULE_BYHOUR),
    BELOW_YEAR = SET(FREQ_DAILY) | SET(FREQ_WEEKLY) | SET(FREQ_MONTHLY),
    BELOW_DAY = SET(FREQ_SECONDLY) | SET(FREQ_MINUTELY) | SET(FREQ_HOURLY),
};

/* ---- parts that do not go together ---- */

#define SIXTH_SAYS                                                                                                     \
    "has a BYDAY with a number above 5, but a month has at most five of a weekday; make it 1 to 5, or -1 to -5"

/* A rule with `part` is refused if all that is given of the other members holds. "not supported": RFC 5545 allows it,
 * but libical expands it to no dates, or ignores the part. */
static const struct rule_ban {
    int part;
    unsigned frequencies; /* it has one of these */
    unsigned beside;      /* it has one of these parts, too */
    unsigned lacks;       /* it has none of these parts */
    const char *says;
} rule_bans[] = {
    { RULE_COUNT, 0, SET(RULE_UNTIL), 0, "has both COUNT and UNTIL; remove one of them" },
    { RULE_NTH, SET(FREQ_DAILY) | SET(FREQ_WEEKLY) | BELOW_DAY, 0, 0,
      "has a BYDAY with a number, which is for FREQ=MONTHLY and FREQ=YEARLY; remove the number, or change FREQ" },
    { RULE_NTH, 0, SET(RULE_BYWEEKNO), 0, "has a BYDAY with a number beside BYWEEKNO; remove the number, or BYWEEKNO" },
    { RULE_SIXTH, SET(FREQ_MONTHLY), 0, 0, SIXTH_SAYS },
    { RULE_SIXTH, SET(FREQ_YEARLY), SET(RULE_BYMONTH), 0, SIXTH_SAYS },
    { RULE_BYMONTHDAY, SET(FREQ_WEEKLY), 0, 0,
      "has a BYMONTHDAY with FREQ=WEEKLY; remove BYMONTHDAY, or change FREQ to MONTHLY" },
    { RULE_BYYEARDAY, BELOW_YEAR, 0, 0, "has a BYYEARDAY, which is for FREQ=YEARLY; remove BYYEARDAY, or change FREQ" },
    { RULE_BYWEEKNO, BELOW_YEAR | BELOW_DAY, 0, 0,
      "has a BYWEEKNO, which is for FREQ=YEARLY; remove BYWEEKNO, or change FREQ" },
    { RULE_BYSETPOS, 0, 0, BY_PARTS, "has a BYSETPOS without another BY part; add one such as BYDAY, or remove it" },
    { RULE_BYSETPOS, SET(FREQ_DAILY) | SET(FREQ_WEEKLY), 0, 0,
      "has a BYSETPOS with FREQ=DAILY or FREQ=WEEKLY, which is not supported; name the days with BYDAY" },
    { RULE_BYYEARDAY, 0, SET(RULE_BYMONTH) | SET(RULE_BYMONTHDAY) | SET(RULE_BYWEEKNO), 0,
      "has a BYYEARDAY beside BYMONTH, BYMONTHDAY or BYWEEKNO, which is not supported; keep one of them" },
    { RULE_BYWEEKNO, 0, SET(RULE_BYMONTH) | SET(RULE_BYMONTHDAY), 0,
      "has a BYWEEKNO beside BYMONTH or BYMONTHDAY, which is not supported; keep one of them" },
};

static bool ical_rule_is_banned(const struct rule_ban *ban, unsigned parts, unsigned frequency)
{
    return parts & SET(ban->part) && (!ban->frequencies || ban->frequencies & frequency) &&
           (!ban->beside || ban->beside & parts) && (!ban->lacks || !(ban->lacks & parts));
}

/* ---- reading ---- */

struct rule_reading {
    size_t line;
    struct error *e;
    unsigned parts;
    unsigned frequency; /* a set of one */
    size_t times;       /* of a day */
};

/* Index of the word that the text ends in, or -1. */
static int ical_rule_last_word(struct str text, const char *const *words)
{
    for (int i = 0; words[i]; i++) {
        struct str word = str_from(words[i]);
        if (text.n >= word.n && str_eq_nocase(str_sub(text, text.n - word.n, text.n), word))
            return i;
    }
    return -1;
}

/* 20261231 or 20261231T235959Z. libical takes dashes and colons too, and compares impossible dates as numbers. */
static bool ical_rule_is_date(struct str text)
{
    char digits[32] = "";
    size_t n = 0, t = 8;
    for (size_t i = 0; i < text.n && n < sizeof digits - 1; i++)
        if (!strchr("-:", text.p[i]))
            digits[n++] = text.p[i];
    struct str rest = { digits, n };
    int64_t day, second = 0;
    if (n > t && rest.p[n - 1] == 'Z')
        rest.n--;
    if (!str_to_i64(str_sub(rest, 0, min_of(t, rest.n)), 0, 99999999, &day))
        return false;
    bool has_time = rest.n == 15 && digits[t] == 'T';
    if (has_time && !str_to_i64(str_sub(rest, t + 1, rest.n), 0, 235960, &second))
        return false;
    struct date date = { (int)(day / 10000), (int)(day / 100 % 100), (int)(day % 100) };
    return (has_time || n == t) && date_is_valid(date) && second / 100 % 100 < 60 && second % 100 <= 60;
}

/* Notes what rule_bans asks about. */
static bool ical_rule_take_value(struct rule_reading *g, int id, struct str text)
{
    const struct rule_part *part = &rule_parts[id];
    int64_t number;
    if (id == RULE_UNTIL)
        return ical_rule_is_date(text);
    if (part->words) {
        int word = ical_rule_last_word(text, part->words);
        if (word < 0)
            return false;
        text = str_sub(text, 0, text.n - strlen(part->words[word]));
        if (id == RULE_FREQ)
            g->frequency = SET(word);
        if (text.n == 0)
            return true;
    }
    bool has_sign = part->is_signed && text.n > 1 && (text.p[0] == '-' || text.p[0] == '+');
    if (!part->max || !str_to_i64(str_sub(text, has_sign, text.n), part->min, part->max, &number))
        return false;
    if (id == RULE_BYDAY)
        g->parts |= SET(RULE_NTH) | (number > WEEKDAYS_OF_MONTH ? SET(RULE_SIXTH) : 0);
    return true;
}

static enum err ical_rule_refuse_value(const struct rule_reading *g, const struct rule_part *part, struct str value)
{
    char text[QUOTE_TEXT], numbers[64] = "";
    quote_text(value, text);
    if (part->max)
        snprintf(numbers, sizeof numbers, "%d to %d%s", part->min, part->max, part->is_signed ? ", or negative" : "");
    return error_set(g->e, ERR_INVALID, "line %zu: the RRULE has the %s %s; it must be %s%s", g->line, part->name, text,
                     numbers, part->hint);
}

static enum err ical_rule_take_part(struct rule_reading *g, struct str name, struct str values)
{
    struct str value;
    char text[QUOTE_TEXT];
    int id = 0;
    while (id < (int)array_count(rule_parts) && !str_eq_nocase(name, str_from(rule_parts[id].name)))
        id++;
    quote_text(name, text);
    if (id == (int)array_count(rule_parts))
        return error_set(g->e, ERR_INVALID, "line %zu: the RRULE has the part %s, which is not supported; remove it",
                         g->line, text);
    const struct rule_part *part = &rule_parts[id];
    if (g->parts & SET(id))
        return error_set(g->e, ERR_INVALID, "line %zu: the RRULE has %s twice; keep one", g->line, part->name);
    if (str_trim(values).n == 0)
        return error_set(g->e, ERR_INVALID, "line %zu: the RRULE has an empty %s; give it a value, or remove it",
                         g->line, part->name);
    g->parts |= SET(id);
    char separator = (BY_PARTS | SET(RULE_BYSETPOS)) & SET(id) ? ',' : ';'; /* the others have one value */
    size_t n = 0;
    for (; str_cut(&values, separator, &value); n++)
        if (!ical_rule_take_value(g, id, str_trim(value)))
            return ical_rule_refuse_value(g, part, str_trim(value));
    if (TIME_PARTS & SET(id))
        g->times = min_of(g->times * n, (size_t)TIMES_MAX + 1);
    return ERR_OK;
}

enum err ical_rule_check(struct str text, size_t line, struct ical_rule *ret, struct error *e)
{
    struct rule_reading g = { .line = line, .e = e, .times = 1 };
    struct str piece;
    while (str_cut(&text, ';', &piece)) {
        size_t equals = str_find(piece, '=', 0);
        struct str name = str_trim(str_sub(piece, 0, equals));
        struct str values = equals < piece.n ? str_sub(piece, equals + 1, piece.n) : S("");
        if (str_trim(piece).n && ical_rule_take_part(&g, name, values))
            return e->code;
    }
    if (!g.frequency)
        return error_set(e, ERR_INVALID, "line %zu: the RRULE has no FREQ; it must be %s", line,
                         rule_parts[RULE_FREQ].hint);
    for (size_t i = 0; i < array_count(rule_bans); i++)
        if (ical_rule_is_banned(&rule_bans[i], g.parts, g.frequency))
            return error_set(e, ERR_INVALID, "line %zu: the RRULE %s", line, rule_bans[i].says);
    if (g.times > TIMES_MAX)
        return error_set(e, ERR_INVALID,
                         "line %zu: the RRULE has more than %d times a day; only its days count, so "
                         "remove BYMINUTE, BYSECOND or values of BYHOUR",
                         line, TIMES_MAX);
    *ret = (struct ical_rule){ line, g.parts };
    return ERR_OK;
}

void ical_rule_days_text(const struct ical_rule *rule, struct buf *out)
{
    for (size_t i = 0; i < array_count(rule_parts); i++)
        if (rule->parts & DAY_PARTS & SET(i))
            buf_printf(out, ", %s", rule_parts[i].name);
}
