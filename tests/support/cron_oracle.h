#pragma once
/* tests/support/cron_oracle.h - a second implementation of cron expressions, slow and simple on purpose.
 *
 * It shares no code with core/time. It keeps the text and checks for each value whether a member of the text's list
 * allows it, following the manual's words. It assumes that the text is valid. It also generates random valid texts. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/date.h"
#include "base/hash.h"
#include "base/prng.h"

struct oracle {
    char fields[6][264];
    uint64_t hash;
    bool seconds[60], minutes[60], hours[24];
};

struct oracle_day {
    int day, month, weekday, length, first; /* first: weekday of the 1st */
};

static const int oracle_min[6] = { 0, 0, 0, 1, 1, 0 }, oracle_max[6] = { 59, 59, 23, 31, 12, 6 };

/* Reads a number or a name at *p and moves past it. */
static inline int oracle_value(const char **p, int field)
{
    static const char *const names[2][12] = {
        { "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December" },
        { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" },
    };
    if (isdigit((unsigned char)**p))
        return (int)strtol(*p, (char **)(uintptr_t)p, 10);
    for (int i = 0; i < 12 && names[field - 4][i]; i++) {
        const char *name = names[field - 4][i];
        size_t n = strncasecmp(*p, name, strlen(name)) == 0 ? strlen(name) : 3;
        if (strncasecmp(*p, name, n) == 0) {
            *p += n;
            return i + oracle_min[field];
        }
    }
    abort();
}

/* True if H or H(a-b), with or without a step, chooses v. */
static inline bool oracle_hash(const char *p, int field, uint64_t hash, int v)
{
    unsigned char bytes[9] = { [8] = (unsigned char)field };
    for (int i = 0; i < 8; i++, hash /= 256)
        bytes[i] = (unsigned char)(hash % 256);
    uint64_t draw = hash_bytes(HASH_STABLE, (struct str){ (const char *)bytes, 9 });
    int low = oracle_min[field], high = field == 3 ? 28 : oracle_max[field], end = oracle_max[field];
    if (*p == '(') {
        p++;
        low = oracle_value(&p, field);
        p++;
        bool sunday = tolower((unsigned char)*p) == 's' && tolower((unsigned char)p[1]) == 'u';
        high = end = oracle_value(&p, field);
        if (field == 5 && sunday && low > 0)
            high = end = 7;
        p++;
    }
    if (*p != '/')
        return v == low + (int)(draw % (uint64_t)(high - low + 1));
    int step = atoi(p + 1), room = high - low + 1 < step ? high - low + 1 : step;
    int start = low + (int)(draw % (uint64_t)room);
    return v >= start && v <= end && (v - start) % step == 0;
}

static inline int oracle_nearest(int day, const struct oracle_day *d)
{
    int best = 99;
    for (int k = 1; k <= d->length; k++) {
        int weekday = (d->first + k - 1) % 7;
        if (weekday != 0 && weekday != 6 && abs(k - day) < abs(best - day))
            best = k;
    }
    return day <= d->length ? best : 0;
}

/* True if one member of a list allows value v of the field. d is NULL for times of day. */
static inline bool oracle_member(const char *p, int field, uint64_t hash, int v, const struct oracle_day *d)
{
    int c = toupper((unsigned char)*p);
    if (c == '*' || c == '?')
        return p[1] != '/' || (v - oracle_min[field]) % atoi(p + 2) == 0;
    if (c == 'H')
        return oracle_hash(p + 1, field, hash, v);
    if (c == 'L') {
        if (p[1] == '-')
            return v == d->length - atoi(p + 2);
        return v == (p[1] == '\0' ? d->length : oracle_nearest(d->length, d));
    }
    int from = oracle_value(&p, field), to = from, step = 1;
    if (toupper((unsigned char)*p) == 'W')
        return v == oracle_nearest(from, d);
    if (toupper((unsigned char)*p) == 'L')
        return v == from && d->day > d->length - 7;
    if (*p == '#')
        return v == from && (d->day + 6) / 7 == atoi(p + 1);
    if (*p == '-') {
        p++;
        bool sunday = tolower((unsigned char)*p) == 's' && tolower((unsigned char)p[1]) == 'u';
        to = oracle_value(&p, field);
        if (field == 5 && sunday && from > 0)
            to = 7;
    } else if (*p == '/') {
        to = oracle_max[field];
        from = field == 5 ? from % 7 : from;
    }
    if (*p == '/')
        step = atoi(p + 1);
    return v >= from && v <= to && (v - from) % step == 0;
}

static inline bool oracle_field(const struct oracle *o, int field, int v, const struct oracle_day *d)
{
    char list[264], *rest = list, *member;
    snprintf(list, sizeof list, "%s", o->fields[field]);
    while ((member = strsep(&rest, ",")))
        if (oracle_member(member, field, o->hash, v, d) ||
            (field == 5 && v == 0 && oracle_member(member, field, o->hash, 7, d)))
            return true;
    return false;
}

static inline struct oracle oracle_of(const char *text, uint64_t hash)
{
    struct oracle o = { .fields = { "0" }, .hash = hash };
    char copy[264], *rest = copy, *field;
    snprintf(copy, sizeof copy, "%s", text);
    int spaces = 0;
    for (const char *p = text; *p; p++)
        spaces += *p == ' ';
    for (int i = 5 - spaces; (field = strsep(&rest, " ")); i++)
        snprintf(o.fields[i], sizeof o.fields[i], "%s", field);
    for (int i = 0; i < 60; i++) {
        o.seconds[i] = oracle_field(&o, 0, i, NULL);
        o.minutes[i] = oracle_field(&o, 1, i, NULL);
        if (i < 24)
            o.hours[i] = oracle_field(&o, 2, i, NULL);
    }
    return o;
}

static inline bool oracle_day(const struct oracle *o, int64_t day)
{
    struct date date = date_of_day(day);
    struct oracle_day d = { date.day, date.month, weekday_of(day), days_in_month(date.year, date.month),
                            weekday_of(day - date.day + 1) };
    if (!oracle_field(o, 4, d.month, &d))
        return false;
    bool by_date = oracle_field(o, 3, d.day, &d), by_weekday = oracle_field(o, 5, d.weekday, &d);
    bool star = strchr("*?", o->fields[3][0]) || strchr("*?", o->fields[5][0]);
    return star ? by_date && by_weekday : by_date || by_weekday;
}

/* True if the time of day matches. */
static inline bool oracle_second(const struct oracle *o, int64_t second)
{
    struct civil c = civil_of(second);
    return o->hours[c.hour] && o->minutes[c.minute] && o->seconds[c.second];
}

/* The next occurrence at or after `from`, or -1 if there is none within that many days. */
static inline int64_t oracle_next(const struct oracle *o, int64_t from, int days)
{
    for (int64_t day = day_of_second(from), end = day + days; day < end; day++, from = day * DAY_S) {
        if (!oracle_day(o, day))
            continue;
        for (int64_t s = from; s < (day + 1) * DAY_S; s++)
            if (oracle_second(o, s))
                return s;
    }
    return -1;
}

static inline void oracle_generate_value(struct prng *r, int field, int v, char *out, size_t size)
{
    static const char *const months[] = { "JAN", "feb",    "March", "APR", "MAY", "june",
                                          "Jul", "AUGUST", "SEP",   "oct", "NOV", "December" };
    static const char *const weekdays[] = { "SUN", "mon", "Tuesday", "WED", "THU", "FRIDAY", "Sat", "SUNDAY" };
    bool named = field >= 4 && prng_below(r, 2);
    if (named)
        snprintf(out, size, "%s", field == 4 ? months[v - 1] : weekdays[v]);
    else
        snprintf(out, size, "%d", v);
}

/* A member of a list in any form that the field supports: a and b are values, n is a step, k a small number. */
static inline void oracle_generate_member(struct prng *r, int field, char *out, size_t size)
{
    static const char *const forms[] = { "*",  "*/n", "a-b", "a-b/n", "a/n",    "a",
                                         "a",  "a",   "H",   "H/n",   "H(a-b)", "H(a-b)/n", /* all fields: 12 */
                                         "L",  "L-n", "LW",  "aW",                          /* day of month */
                                         "aL", "a#k", "aL",  "a#k" /* day of week */ };
    size_t form = prng_below(r, field == 3 || field == 5 ? 16 : 12);
    const char *p = forms[form >= 12 && field == 5 ? form + 4 : form];
    int min = oracle_min[field], max = field == 5 ? 7 : field == 3 && *p == 'H' ? 28 : oracle_max[field];
    int low = (int)prng_between(r, min, max), high = (int)prng_between(r, low, max);
    int most = oracle_max[field] - min + (*p != 'L');
    size_t n = 0;
    for (; *p; p++) {
        char piece[16] = { *p };
        if (*p == 'a' || *p == 'b')
            oracle_generate_value(r, field, *p == 'a' ? low : high, piece, sizeof piece);
        if (*p == 'n' || *p == 'k')
            snprintf(piece, sizeof piece, "%d", (int)prng_between(r, 1, *p == 'k' || prng_below(r, 2) ? 5 : most));
        n += (size_t)snprintf(out + n, size - n, "%s", piece);
    }
}

static inline void oracle_generate(struct prng *r, char *text, size_t size)
{
    size_t n = 0;
    for (int field = prng_below(r, 2) ? 0 : 1; field < 6; field++) {
        bool plain = prng_below(r, 3) == 0; /* as most fields are */
        int members = plain ? 1 : (int)prng_between(r, 1, 3);
        for (int i = 0; i < members; i++) {
            char member[40] = "*";
            if (!plain)
                oracle_generate_member(r, field, member, sizeof member);
            if (plain && field % 2 && field >= 3 && prng_below(r, 2))
                member[0] = '?';
            n += (size_t)snprintf(text + n, size - n, "%s%s", member, i + 1 < members ? "," : "");
        }
        if (field < 5)
            n += (size_t)snprintf(text + n, size - n, " ");
    }
}
