#include "core/time/calendar_json.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json/json.h"
#include "base/rfc3339.h"

enum { DESCRIPTION_MAX = 1000, DATE_TEXT = 10 };

static const char *const weekdays[] = { "SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", NULL };

struct calendar_json {
    struct str description;
    struct json_array weekdays, excluded, included;
};

struct calendar_named_date {
    struct str date, name;
};

/* clang-format off */
#define AT(member) .offset = offsetof(struct calendar_json, member)
static const struct json_field weekday_field[] = { { .kind = JSON_KIND_ENUM, .names = weekdays } };
static const struct json_field date_field[] = { { .kind = JSON_KIND_RAW } };
#define DATES .kind = JSON_KIND_ARRAY, .fields = date_field, .count = 1, .size = sizeof(json_t *), .max = CALENDAR_DATES_MAX, .nullable = true
static const struct json_field fields[] = {
    { .name = "description", .kind = JSON_KIND_STR, AT(description), .max = DESCRIPTION_MAX, .characters = true, .nullable = true },
    { .name = "excluded_weekdays", .kind = JSON_KIND_ARRAY, AT(weekdays), .fields = weekday_field, .count = 1, .size = sizeof(int), .max = 7,
      .nullable = true },
    { .name = "excluded", AT(excluded), DATES },
    { .name = "included", AT(included), DATES },
};
static const struct json_field date_fields[] = {
    { .name = "date", .kind = JSON_KIND_STR, .offset = offsetof(struct calendar_named_date, date), .required = true },
    { .name = "name", .kind = JSON_KIND_STR, .offset = offsetof(struct calendar_named_date, name), .max = CALENDAR_TEXT_MAX, .characters = true, .nullable = true },
};
/* clang-format on */

/* ---- reading ---- */

/* Parses the date as midnight, so that its errors read as for any other time. */
static enum err calendar_read_day(struct str text, int32_t *ret, struct error *e)
{
    char midnight[DATE_TEXT + sizeof "T00:00:00Z"];
    int64_t ms;
    if (text.n != DATE_TEXT)
        return error_set(e, ERR_INVALID, "is not a date; write it as 2026-12-25");
    snprintf(midnight, sizeof midnight, STR_FMT "T00:00:00Z", STR_ARG(text));
    if (rfc3339_parse(str_from(midnight), &ms, e))
        return e->code;
    *ret = (int32_t)floor_div(ms, DAY_MS);
    return ERR_OK;
}

static enum err calendar_read_date(json_t *v, struct arena *a, struct calendar_date *ret, struct error *e)
{
    struct calendar_named_date d = { { json_string_value(v), json_string_length(v) }, S("") };
    bool is_object = json_is_object(v);
    if (!is_object && !json_is_string(v))
        return error_set(e, ERR_INVALID, "must be a date, or an object with a date and a name");
    if (is_object && json_read(v, date_fields, array_count(date_fields), &d, a, e))
        return e->code;
    if (calendar_read_day(d.date, &ret->day, e))
        return is_object ? error_in(e, "date") : e->code;
    ret->name = d.name;
    return ERR_OK;
}

static int calendar_compare_dates(const void *x, const void *y)
{
    const struct calendar_date *a = x, *b = y;
    if (a->day != b->day)
        return a->day < b->day ? -1 : 1;
    if (!a->name.n || !b->name.n)
        return (int)(a->name.n == 0) - (int)(b->name.n == 0);
    int order = memcmp(a->name.p, b->name.p, min_of(a->name.n, b->name.n));
    return order ? order : (a->name.n > b->name.n) - (a->name.n < b->name.n);
}

static size_t calendar_sort_dates(struct calendar_date *v, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(v, n, sizeof *v, calendar_compare_dates);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || v[i].day != v[kept - 1].day)
            v[kept++] = v[i];
    return kept;
}

static enum err calendar_read_dates(const char *field, const struct json_array *from, struct arena *a,
                                    struct calendar_date **ret, size_t *ret_count, struct error *e)
{
    json_t **values = from->v;
    struct calendar_date *dates = arena_array(a, struct calendar_date, from->n);
    if (!dates)
        return error_no_room(e);
    for (size_t i = 0; i < from->n; i++) {
        char at[48];
        snprintf(at, sizeof at, "%s[%zu]", field, i);
        if (calendar_read_date(values[i], a, &dates[i], e))
            return error_in(e, at);
    }
    *ret = dates;
    *ret_count = calendar_sort_dates(dates, from->n);
    return ERR_OK;
}

enum err calendar_doc_read(struct str text, struct arena *a, struct calendar_doc *ret, struct error *e)
{
    struct error own; /* so that e may be NULL */
    e = e ? e : &own;
    cleanup_with(json_doc_release) struct json_doc json = { 0 };
    struct calendar_json d = { 0 };
    if (json_parse(text, &json, e) || json_read(json.root, fields, array_count(fields), &d, a, e))
        return e->code;
    struct calendar_doc c = { .description = d.description };
    for (size_t i = 0; i < d.weekdays.n; i++)
        c.excluded_weekdays |= (uint8_t)(1 << ((const int *)d.weekdays.v)[i]);
    if (calendar_read_dates("excluded", &d.excluded, a, &c.excluded, &c.excluded_count, e) ||
        calendar_read_dates("included", &d.included, a, &c.included, &c.included_count, e))
        return e->code;
    *ret = c;
    return ERR_OK;
}

/* ---- writing ---- */

static void calendar_write_date(struct jw *w, const struct calendar_date *d)
{
    char text[RFC3339_TEXT + 1];
    rfc3339_format(d->day * DAY_MS, text);
    struct str date = { text, DATE_TEXT };
    if (!d->name.n) {
        jw_str(w, date);
        return;
    }
    jw_object(w);
    jw_kv_str(w, "date", date);
    jw_kv_str(w, "name", d->name);
    jw_object_end(w);
}

static void calendar_write_dates(struct jw *w, const char *name, const struct calendar_date *v, size_t n)
{
    jw_key(w, name);
    jw_array(w);
    for (size_t i = 0; i < n; i++)
        calendar_write_date(w, &v[i]);
    jw_array_end(w);
}

void calendar_head_write(struct jw *w, const struct calendar_doc *d)
{
    jw_kv_str(w, "description", d->description);
    jw_key(w, "excluded_weekdays");
    jw_array(w);
    for (int i = 1; i <= 7; i++) /* a week begins on Monday */
        if (d->excluded_weekdays >> i % 7 & 1)
            jw_str(w, str_from(weekdays[i % 7]));
    jw_array_end(w);
}

void calendar_doc_write(struct jw *w, const struct calendar_doc *d)
{
    calendar_head_write(w, d);
    calendar_write_dates(w, "excluded", d->excluded, d->excluded_count);
    calendar_write_dates(w, "included", d->included, d->included_count);
}

/* ---- lookups ---- */

static bool calendar_days(const struct calendar_date *v, size_t n, struct arena *a, const int32_t **ret)
{
    int32_t *days = arena_array(a, int32_t, n);
    for (size_t i = 0; days && i < n; i++)
        days[i] = v[i].day;
    *ret = days;
    return days != NULL;
}

/* *ret stays NULL if no date has a name. */
static bool calendar_names(const struct calendar_date *v, size_t n, struct arena *a, const struct str **ret)
{
    struct str *names = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!v[i].name.n)
            continue;
        if (!names)
            names = arena_zarray(a, n, sizeof *names);
        if (!names || !arena_str(a, v[i].name, &names[i]))
            return false;
    }
    *ret = names;
    return true;
}

bool calendar_of_doc(const struct calendar_doc *d, const char *name, struct arena *a, struct calendar *ret)
{
    struct calendar c = { .name = name,
                          .excluded_weekdays = d->excluded_weekdays,
                          .excluded_count = d->excluded_count,
                          .included_count = d->included_count };
    if (!calendar_days(d->excluded, d->excluded_count, a, &c.excluded) ||
        !calendar_days(d->included, d->included_count, a, &c.included) ||
        !calendar_names(d->excluded, d->excluded_count, a, &c.excluded_names))
        return false;
    uint64_t *words = arena_array(a, uint64_t, CALENDAR_WORDS);
    if (!words)
        return false;
    calendar_fill_words(&c, words);
    c.words = words;
    *ret = c;
    return true;
}
