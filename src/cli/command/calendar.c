/* belfry calendar - business calendars: the days on which tasks that name the calendar may fire. */
#include <errno.h>

#include "base/rfc3339.h"
#include "base/sentence.h"
#include "cli/command/commands.h"
#include "cli/filter.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/verbs.h"
#include "core/time/calendar_json.h"
#include "platform/file.h"

enum { COLUMNS = 6, FILE_MAX = 4 << 20, ARENA_MAX = 32 << 20, DATE_TEXT = 10, SHOWN_MAX = 50 };
#define COLLECTION "/v1/calendars"

/* clang-format off */
static const struct option options[] = {
    { .flag = "exclude", .type = OPTION_LIST, .value = "DATE", .only = "set", .help = "exclude this day; '2026-12-25 Christmas Day' also names it" },
    { .flag = "include", .type = OPTION_LIST, .value = "DATE", .only = "set", .help = "include this day, even if its weekday is excluded" },
    { .flag = "forget", .type = OPTION_LIST, .value = "DATE", .only = "set", .help = "remove this day from excluded and included days" },
    { .flag = "weekdays", .type = OPTION_TEXT, .value = "LIST", .only = "set", .help = "exclude these days of the week, such as SAT,SUN; none: exclude no weekday" },
    { .flag = "description", .type = OPTION_TEXT, .value = "TEXT", .only = "set", .help = "description of the calendar" },
    { .flag = "no-weekends", .type = OPTION_FLAG, .only = "import", .help = "also exclude Saturdays and Sundays" },
    { .flag = "tz", .type = OPTION_TEXT, .value = "ZONE", .only = "import", .help = "time zone that decides the date of an event given in UTC; default: UTC" },
};
/* clang-format on */

static const char detail[] =
    "  list                     list all calendars\n"
    "  show NAME                show a calendar with its dates\n"
    "  import FILE.ics [NAME]   exclude the days of every event; repeated events are expanded for 10 years;\n"
    "                           '-' reads standard input; default of NAME: the name of the file\n"
    "  set NAME                 change or create a calendar; only the given options change\n"
    "  rm NAME                  remove a calendar; refused while tasks use it\n"
    "\n"
    "Examples:\n"
    "  belfry calendar import de-holidays.ics --no-weekends\n"
    "  belfry calendar set office --weekdays SAT,SUN --exclude '2026-12-24 Christmas Eve'\n"
    "  belfry add --cron '0 8 * * *' --tz Europe/Berlin --calendar office https://example.com/report\n";

/* ---- list and show ---- */

static void calendar_header(struct table *t)
{
    table_row(t, COLUMNS, "NAME", "EXCLUDED", "INCLUDED", "WEEKDAYS OFF", "UPDATED", "DESCRIPTION");
}

static void calendar_weekdays_text(const json_t *calendar, struct buf *out)
{
    joined_text(calendar, "excluded_weekdays", out);
    buf_text(out, out->n ? "" : "-");
}

static void calendar_add_row(struct rows *r, const json_t *calendar)
{
    char updated[CELL_TEXT], excluded[32], included[32];
    number_text(calendar, "excluded_count", excluded);
    number_text(calendar, "included_count", included);
    moment_text(calendar, "updated_at", clock_wall_ms(r->cli->clock), updated);
    table_row(&r->table, COLUMNS, table_text(&r->table, json_text_at(calendar, "name")), excluded, included,
              task_cell(&r->table, calendar_weekdays_text, calendar), updated,
              table_text(&r->table, json_text_at(calendar, "description")));
}

static enum exit_code calendar_list(struct verb_work *w)
{
    struct pages p = { .client = w->client, .path = COLLECTION, .member = "calendars", .limit = INT64_MAX };
    struct rows r = { .header = calendar_header, .add = calendar_add_row, .keep = { 1 } };
    return rows_print(w->cli, w->o, &p, &r, COLUMNS, "there are no calendars");
}

/* A date is a JSON string, or an object with date and name. */
static void calendar_add_dates(struct table *t, const json_t *root, const char *member, const char *label)
{
    size_t count = json_count_at(root, member);
    for (size_t i = 0; i < min_of(count, (size_t)SHOWN_MAX); i++) {
        const json_t *date = json_array_get(json_at(root, member), i);
        struct str bare = json_text_at(date, ""), named = json_text_at(date, "date");
        table_row(t, 3, label, table_text(t, bare.n ? bare : named), table_text(t, json_text_at(date, "name")));
    }
    char more[64];
    snprintf(more, sizeof more, "and %zu more; --json prints all", count - min_of(count, (size_t)SHOWN_MAX));
    if (count > SHOWN_MAX)
        table_row(t, 3, label, "…", more);
}

static void calendar_print(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    static const struct named_fact facts[] = {
        { "Name", "name", FACT_TEXT },
        { "Description", "description", FACT_TEXT },
        { "Version", "version", FACT_NUMBER },
        { "Updated", "updated_at", FACT_MOMENT },
    };
    cleanup_with(table_release) struct table t;
    table_init(&t, 3);
    named_facts_print(w->cli, doc->root, facts, array_count(facts), out);
    buf_printf(out, "\n");
    table_row(&t, 3, "Weekdays off", task_cell(&t, calendar_weekdays_text, doc->root), "");
    calendar_add_dates(&t, doc->root, "excluded", "Excluded");
    calendar_add_dates(&t, doc->root, "included", "Included");
    table_print(&t, out);
}

static enum exit_code calendar_show(struct verb_work *w)
{
    char path[VERB_PATH];
    verb_path(w, COLLECTION, path);
    return verb_call(w, &(struct client_request){ .method = "GET", .path = path, .about = w->name }, calendar_print,
                     NULL);
}

/* ---- import ---- */

/* Returns "de-holidays" for "/tmp/de-holidays.ics". */
static struct str calendar_name_of_file(struct str path)
{
    size_t from = path.n;
    while (from > 0 && path.p[from - 1] != '/')
        from--;
    struct str name = str_sub(path, from, path.n), tail = name.n > 4 ? str_sub(name, name.n - 4, name.n) : S("");
    return str_eq_nocase(tail, S(".ics")) ? str_sub(name, 0, name.n - 4) : name;
}

static enum err calendar_read_name(const struct verb_work *w, struct str *ret, struct error *e)
{
    char quoted[QUOTE_TEXT];
    struct str name = w->o->word_count > 2 ? w->o->words[2] : calendar_name_of_file(w->o->words[1]);
    quote_text(name, quoted);
    if (!verb_name_is_valid(name) || str_eq(name, S("-")))
        return error_set(e, ERR_INVALID, "%s is not a valid name of a calendar: give a name after the file", quoted);
    *ret = name;
    return ERR_OK;
}

static void calendar_print_imported(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    (void)w;
    char name[CELL_TEXT];
    buf_printf(out, "%s has %zu excluded dates\n", table_cell(json_text_at(doc->root, "name"), name),
               json_count_at(doc->root, "excluded"));
}

static enum exit_code calendar_import(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf text, path;
    struct error e;
    struct str name = { 0 };
    buf_init(&text, FILE_MAX);
    buf_init(&path, VERB_PATH * 4);
    if (calendar_read_name(w, &name, &e) || file_read(w->name, &text, &e))
        return cli_fail(w->cli, "calendar", &e, e.code == ERR_INVALID ? EXIT_USAGE : EXIT_REFUSED);
    buf_printf(&path, COLLECTION "/" STR_FMT, STR_ARG(name));
    if (option_get(w->o, "no-weekends")->number)
        query_add(&path, "weekends", S("exclude"));
    if (option_given(w->o, "tz"))
        query_add(&path, "time_zone", option_get(w->o, "tz")->text);
    struct client_request call = {
        .method = "PUT", .path = buf_cstr(&path), .body = buf_str(&text), .type = "text/calendar", .about = w->name
    };
    return verb_call(w, &call, calendar_print_imported, NULL);
}

/* ---- set ---- */

static enum err calendar_read_date(struct str given, const char *flag, struct calendar_date *ret, struct error *e)
{
    char text[DATE_TEXT + sizeof "T00:00:00Z"], quoted[QUOTE_TEXT];
    int64_t ms;
    struct error why = { 0 };
    struct str date = str_sub(given, 0, min_of(given.n, (size_t)DATE_TEXT));
    struct str rest = str_trim(str_sub(given, date.n, given.n));
    snprintf(text, sizeof text, STR_FMT "T00:00:00Z", STR_ARG(date));
    quote_text(given, quoted);
    if (date.n != DATE_TEXT || rfc3339_parse(str_from(text), &ms, &why))
        return error_field(e, flag, "cannot be %s: write a date as 2026-12-25", quoted);
    *ret = (struct calendar_date){ (int32_t)floor_div(ms, DAY_MS), rest };
    return ERR_OK;
}

struct calendar_dates {
    struct calendar_date *v;
    size_t n;
};

static void calendar_dates_remove(struct calendar_dates *d, int32_t day)
{
    size_t kept = 0;
    for (size_t i = 0; i < d->n; i++)
        if (d->v[i].day != day)
            d->v[kept++] = d->v[i];
    d->n = kept;
}

/* The present calendar, in arrays with room for new dates; empty if the calendar does not exist yet. */
struct calendar_draft {
    struct calendar_doc doc;
    struct calendar_dates excluded, included;
    int64_t version;
    struct arena arena;
};

static struct calendar_dates calendar_dates_copy(struct arena *a, const struct calendar_date *v, size_t n)
{
    struct calendar_dates d = { arena_array(a, struct calendar_date, n + OPTION_LIST_MAX), n };
    if (n)
        memcpy(d.v, v, n * sizeof *v);
    return d;
}

static enum err calendar_draft_read(struct calendar_draft *d, const struct json_doc *doc, struct error *e)
{
    static const char *const members[] = { "description", "excluded_weekdays", "excluded", "included" };
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, FILE_MAX * 2);
    struct jw w;
    jw_init(&w, &text);
    jw_object(&w);
    for (size_t i = 0; i < array_count(members); i++) {
        struct str member = json_member_text(doc, members[i]);
        if (!member.n)
            continue;
        jw_key(&w, members[i]);
        jw_raw(&w, member);
    }
    jw_object_end(&w);
    d->version = json_i64_at(doc->root, "version", 0);
    struct str kept;
    if (!arena_str(&d->arena, buf_str(&text), &kept))
        return error_set(e, ERR_LIMIT, "the calendar is too large");
    return calendar_doc_read(kept, &d->arena, &d->doc, e);
}

static enum err calendar_draft_set_dates(const struct options *o, const char *flag, struct calendar_dates *to,
                                         struct calendar_dates *from, struct error *e)
{
    char field[32];
    snprintf(field, sizeof field, "--%s", flag);
    const struct option_value *given = option_get(o, flag);
    for (size_t i = 0; i < given->list_count; i++) {
        struct calendar_date date;
        if (calendar_read_date(given->list[i], field, &date, e))
            return e->code;
        calendar_dates_remove(from, date.day);
        if (to) {
            calendar_dates_remove(to, date.day);
            to->v[to->n++] = date;
        }
    }
    return ERR_OK;
}

static enum err calendar_read_weekdays(struct str list, uint8_t *ret, struct error *e)
{
    static const char *const names[] = { "SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT" };
    struct str rest = str_eq_nocase(list, S("none")) ? S("") : list, word;
    uint8_t days = 0;
    while (str_cut(&rest, ',', &word)) {
        size_t i = 0;
        while (i < array_count(names) && !str_eq_nocase(str_trim(word), str_from(names[i])))
            i++;
        if (i == array_count(names))
            return error_field(e, "--weekdays", "must be a list of SUN, MON, TUE, WED, THU, FRI and SAT, or none");
        days |= (uint8_t)(1U << i);
    }
    *ret = days;
    return ERR_OK;
}

static enum err calendar_draft_apply_options(const struct options *o, struct calendar_draft *d, struct error *e)
{
    d->excluded = calendar_dates_copy(&d->arena, d->doc.excluded, d->doc.excluded_count);
    d->included = calendar_dates_copy(&d->arena, d->doc.included, d->doc.included_count);
    if (option_given(o, "description"))
        d->doc.description = option_get(o, "description")->text;
    if (option_given(o, "weekdays") &&
        calendar_read_weekdays(option_get(o, "weekdays")->text, &d->doc.excluded_weekdays, e))
        return e->code;
    if (calendar_draft_set_dates(o, "forget", NULL, &d->excluded, e) ||
        calendar_draft_set_dates(o, "forget", NULL, &d->included, e) ||
        calendar_draft_set_dates(o, "exclude", &d->excluded, &d->included, e) ||
        calendar_draft_set_dates(o, "include", &d->included, &d->excluded, e))
        return e->code;
    d->doc.excluded = d->excluded.v;
    d->doc.excluded_count = d->excluded.n;
    d->doc.included = d->included.v;
    d->doc.included_count = d->included.n;
    return ERR_OK;
}

static enum exit_code calendar_draft_put(struct verb_work *w, const char *path, const struct calendar_draft *d)
{
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, FILE_MAX * 2);
    struct jw j;
    jw_init(&j, &body);
    jw_object(&j);
    calendar_doc_write(&j, &d->doc);
    jw_object_end(&j);
    struct client_request call = {
        .method = "PUT", .path = path, .body = buf_str(&body), .if_version = d->version, .about = w->name
    };
    return verb_call(w, &call, calendar_print, NULL);
}

static enum exit_code calendar_set(struct verb_work *w)
{
    static const char *const ours[] = { "exclude", "include", "forget", "weekdays", "description" };
    char path[VERB_PATH];
    struct error e;
    struct calendar_draft d = { 0 };
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    bool named = false;
    for (size_t i = 0; i < array_count(ours); i++)
        named = named || option_given(w->o, ours[i]);
    if (!named) {
        error_set(&e, ERR_INVALID,
                  "nothing to change: give --exclude, --include, --forget, --weekdays or --description");
        return cli_fail(w->cli, "calendar", &e, EXIT_USAGE);
    }
    verb_path(w, COLLECTION, path);
    struct client_request call = { .method = "GET", .path = path, .about = w->name, .may_be_missing = true };
    enum exit_code code = client_call(w->client, &call, &a);
    arena_init(&d.arena, ARENA_MAX);
    if (code == EXIT_DONE &&
        ((a.doc.root && calendar_draft_read(&d, &a.doc, &e)) || calendar_draft_apply_options(w->o, &d, &e)))
        code = cli_fail(w->cli, "calendar", &e, EXIT_USAGE);
    if (code == EXIT_DONE)
        code = calendar_draft_put(w, path, &d);
    arena_release(&d.arena);
    return code;
}

static enum exit_code calendar_remove(struct verb_work *w)
{
    char path[VERB_PATH];
    verb_path(w, COLLECTION, path);
    return verb_call(w, &(struct client_request){ .method = "DELETE", .path = path, .about = w->name }, NULL,
                     "removed");
}

static enum exit_code command_calendar_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = {
        { "list", NULL, false, 0, calendar_list },       { "show", "NAME", true, false, calendar_show },
        { "import", "FILE", false, 1, calendar_import }, { "set", "NAME", true, false, calendar_set },
        { "rm", "NAME", true, 0, calendar_remove },
    };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_calendar = {
    .name = "calendar",
    .words = "list|show|import|set|rm [NAME|FILE]",
    .summary = "manage business calendars, or import them from iCalendar files",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_calendar_run,
};
