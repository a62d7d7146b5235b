#include "cli/command/next/calendar_file.h"

#include "base/json/json.h"
#include "platform/file.h"
#include "port/ical.h"

enum {
    MEMORY_MAX = 32 << 20,
    YEAR_DAYS = 366,
    YEARS_AROUND = 10,
    WEEKEND = 1 << 0 | 1 << 6, /* as excluded_weekdays of struct calendar */
};

void next_calendar_release(struct next_calendar *c)
{
    arena_release(&c->memory);
}

static enum err next_calendar_import(struct cli *cli, struct str text, const struct tz *zone, struct arena *a,
                                     struct calendar_doc *ret, struct error *e)
{
    int32_t today = (int32_t)floor_div(clock_wall_ms(cli->clock), DAY_MS);
    struct ical_options o = { .from_day = today - YEARS_AROUND * YEAR_DAYS,
                              .until_day = today + YEARS_AROUND * YEAR_DAYS,
                              .zone = zone,
                              .clock = cli->clock };
    struct ical_dates dates;
    enum err rc = ical_read(text, &o, a, &dates, e);
    if (rc == ERR_OK)
        *ret = (struct calendar_doc){ .excluded = dates.v, .excluded_count = dates.n };
    return rc;
}

/* The server's answer has members that its requests do not have. */
static enum err next_calendar_read_json(struct str text, struct arena *a, struct calendar_doc *ret, struct error *e)
{
    static const char *const of_answers[] = { "name", "version", "created_at", "updated_at" };
    cleanup_with(json_doc_release) struct json_doc parsed = { 0 };
    cleanup_with(buf_release) struct buf body;
    struct json_cursor c = { .text = text };
    struct str name, value, kept;
    buf_init(&body, ICAL_TEXT_MAX);
    if (json_parse(text, &parsed, e))
        return e->code;
    while (json_next(&c, &name, &value)) {
        bool is_of_answers = false;
        for (size_t i = 0; i < array_count(of_answers); i++)
            is_of_answers = is_of_answers || str_eq(name, str_from(of_answers[i]));
        if (is_of_answers)
            continue;
        buf_printf(&body, "%c\"" STR_FMT "\":", body.n ? ',' : '{', STR_ARG(name));
        buf_add(&body, value);
    }
    buf_text(&body, body.n ? "}" : "{}");
    if (body.full || !arena_str(a, buf_str(&body), &kept))
        return error_set(e, ERR_LIMIT, "the file is too large");
    return calendar_doc_read(kept, a, ret, e);
}

/* A JSON document begins with a brace, an iCalendar file with BEGIN. */
static enum err next_calendar_read_file(struct cli *cli, const char *path, const struct tz *zone, struct arena *a,
                                        struct calendar_doc *ret, struct error *e)
{
    cleanup_with(buf_release) struct buf file;
    struct str text;
    buf_init(&file, ICAL_TEXT_MAX);
    if (file_read(path, &file, e))
        return e->code;
    if (!arena_str(a, buf_str(&file), &text))
        return error_set(e, ERR_LIMIT, "%s is too large", path);
    struct str trimmed = str_trim(text);
    enum err rc = trimmed.n && trimmed.p[0] == '{' ? next_calendar_read_json(trimmed, a, ret, e)
                                                   : next_calendar_import(cli, text, zone, a, ret, e);
    return rc;
}

static enum err next_calendar_check(const struct options *o, struct error *e)
{
    if (option_given(o, "calendar"))
        return ERR_OK;
    if (option_given(o, "calendar-policy"))
        return error_field(e, "--calendar-policy", "requires --calendar");
    return option_get(o, "no-weekends")->number ? error_field(e, "--no-weekends", "requires --calendar") : ERR_OK;
}

enum err next_calendar_read(struct cli *cli, const struct options *o, struct next_calendar *into,
                            struct recurrence *rule, struct error *e)
{
    struct calendar_doc doc;
    struct error why = { 0 };
    arena_init(&into->memory, MEMORY_MAX);
    if (next_calendar_check(o, e))
        return e->code;
    if (!option_given(o, "calendar"))
        return ERR_OK;
    enum err rc =
        next_calendar_read_file(cli, option_get(o, "calendar")->text.p, rule->zone, &into->memory, &doc, &why);
    if (rc)
        return error_field(e, "--calendar", "cannot be used: %s%s%s", why.field, why.field[0] ? " " : "", why.text);
    doc.excluded_weekdays |= option_get(o, "no-weekends")->number ? WEEKEND : 0;
    if (!calendar_of_doc(&doc, "", &into->memory, &into->calendar))
        return error_field(e, "--calendar", "has too many dates");
    rule->calendar = &into->calendar;
    if (option_given(o, "calendar-policy"))
        rule->calendar_policy = (enum calendar_policy)option_get(o, "calendar-policy")->number;
    return ERR_OK;
}
