#include "cli/filter.h"

#include "base/rfc3339.h"
#include "base/sentence.h"

/* clang-format off */
const struct option filter_options[] = {
    { .flag = "status", .type = OPTION_CHOICE, .value = "STATUS",
      .choices = "SCHEDULED|BLOCKED|PAUSED|RUNNING|COMPLETED|FAILED|CANCELLED|SKIPPED|EXPIRED|"
                 "ACTIVE|PENDING|IN_PROGRESS|SUCCESS|DEAD_LETTERED",
      .help = "only tasks in this state; ACTIVE: SCHEDULED, BLOCKED or RUNNING" },
    { .flag = "type", .type = OPTION_CHOICE, .value = "TYPE", .choices = "ONE_TIME|RECURRING",
      .help = "only tasks of this type" },
    { .flag = "recurring", .type = OPTION_FLAG, .help = "the same as --type RECURRING" },
    { .flag = "name", .type = OPTION_TEXT, .value = "NAME", .help = "only tasks whose name begins with NAME" },
    { .flag = "queue", .type = OPTION_TEXT, .value = "QUEUE", .help = "only tasks of this queue" },
    { .flag = "task-type", .type = OPTION_TEXT, .value = "TYPE", .help = "only tasks of this task type, such as report.daily" },
    { .flag = "due-before", .type = OPTION_DAY, .value = "TIME", .help = "only tasks whose due time is before this time or date; tasks that have ended keep theirs (see --status)" },
    { .flag = "due-after", .type = OPTION_DAY, .value = "TIME", .help = "only tasks whose due time is this time or date, or later; tasks that have ended keep theirs (see --status)" },
    { .flag = "created-before", .type = OPTION_DAY, .value = "TIME", .help = "only tasks that were created before this time or date" },
    { .flag = "created-after", .type = OPTION_DAY, .value = "TIME", .help = "only tasks that were created at this time or date, or later" },
    /* of lists only */
    { .flag = "id", .type = OPTION_TEXT, .value = "ID", .help = "only tasks whose id begins with ID" },
    { .flag = "occurrences", .type = OPTION_FLAG, .help = "the runs of recurring tasks, too" },
    { .flag = "search", .type = OPTION_TEXT, .value = "TEXT",
      .help = "only tasks with TEXT in their name or a key, or with this id, trace, X-Request-Id or Idempotency-Key; payload:TEXT: in their payload" },
};
/* clang-format on */

enum { NAME_TEXT = 32 };

static bool filter_is_unreserved(char c)
{
    return is_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z') || c == '-' || c == '_' || c == '.';
}

static void filter_add_encoded(struct buf *query, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (filter_is_unreserved(text.p[i]))
            buf_char(query, text.p[i]);
        else
            buf_printf(query, "%%%02X", (unsigned char)text.p[i]);
    }
}

void query_add(struct buf *query, const char *name, struct str value)
{
    buf_printf(query, "%c%s=", str_find(buf_str(query), '?', 0) < query->n ? '&' : '?', name);
    filter_add_encoded(query, value);
}

static void query_add_time(struct buf *query, const char *name, int64_t ms)
{
    char text[RFC3339_TEXT + 1];
    rfc3339_format(ms, text);
    query_add(query, name, str_from(text));
}

void query_add_day(struct buf *query, const struct options *o, const char *flag)
{
    if (option_given(o, flag))
        query_add_time(query, flag, option_get(o, flag)->number);
}

void query_add_past(struct buf *query, const struct options *o, const char *flag, const char *name, int64_t now_ms)
{
    if (option_given(o, flag))
        query_add_time(query, name, option_past_ms(o, flag, now_ms));
}

/* Writes due_before for due-before. False: it is too long. */
static bool filter_query_name(struct str flag, char out[NAME_TEXT])
{
    if (flag.n >= NAME_TEXT)
        return false;
    for (size_t i = 0; i < flag.n; i++)
        out[i] = flag.p[i] == '-' ? '_' : flag.p[i];
    out[flag.n] = '\0';
    return true;
}

/* The choice as the table spells it: users may type it in any case. */
static struct str filter_choice_text(const struct option *row, const struct option_value *v)
{
    struct str rest = str_from(row->choices), choice = { NULL, 0 };
    for (int64_t i = 0; i <= v->number; i++)
        if (!str_cut(&rest, '|', &choice))
            break;
    return choice;
}

static void filter_add_value(struct buf *query, const struct option *row, const struct option_value *v)
{
    char name[NAME_TEXT];
    struct str text = row->type == OPTION_CHOICE ? filter_choice_text(row, v) : v->text;
    if (row->type == OPTION_FLAG && strcmp(row->flag, "recurring") == 0)
        query_add(query, "type", S("RECURRING"));
    else if (row->type == OPTION_FLAG)
        query_add(query, row->flag, S("true"));
    else if (!filter_query_name(str_from(row->flag), name))
        return;
    else if (row->type == OPTION_DAY)
        query_add_time(query, name, v->number);
    else
        query_add(query, name, text);
}

/* A list shows all names that begin so. An action by --filter takes the name as it is given: it changes tasks. */
static void filter_add_name_beginning(struct buf *query, struct str name)
{
    cleanup_with(buf_release) struct buf pattern;
    buf_init(&pattern, name.n + 2);
    buf_add(&pattern, name);
    if (name.n && name.p[name.n - 1] != '*')
        buf_char(&pattern, '*');
    query_add(query, "name", buf_str(&pattern));
}

void filter_from_options(const struct options *o, struct buf *query)
{
    for (size_t i = 0; i < FILTER_LIST_COUNT; i++) {
        const struct option *row = &filter_options[i];
        const struct option_value *v = option_get(o, row->flag);
        if (v->source <= FROM_PRESET || (row->type == OPTION_FLAG && !v->number))
            continue;
        if (strcmp(row->flag, "name") == 0)
            filter_add_name_beginning(query, v->text);
        else
            filter_add_value(query, row, v);
    }
}

static const struct option *filter_find_option(struct str name)
{
    char wanted[NAME_TEXT], known[NAME_TEXT];
    for (size_t i = 0; filter_query_name(name, wanted) && i < FILTER_OPTION_COUNT; i++)
        if (filter_options[i].type != OPTION_FLAG && filter_query_name(str_from(filter_options[i].flag), known) &&
            strcmp(wanted, known) == 0)
            return &filter_options[i];
    return NULL;
}

static enum err filter_fail_unknown(struct str name, const char *field, struct error *e)
{
    struct suggest s;
    char shown[QUOTE_TEXT];
    quote_text(name, shown);
    suggest_init(&s, name);
    for (size_t i = 0; i < FILTER_OPTION_COUNT; i++)
        suggest_offer(&s, str_from(filter_options[i].flag));
    if (s.closest.p)
        return error_field(e, field, "has no filter %s; did you mean '" STR_FMT "'?", shown, STR_ARG(s.closest));
    return error_field(e, field,
                       "has no filter %s; use status=, type=, name=, queue=, task-type=, due-before=, due-after=, "
                       "created-before= or created-after=",
                       shown);
}

static bool filter_has_name(const struct buf *query, const char *name)
{
    struct str rest = buf_str(query), pair;
    str_cut(&rest, '?', &pair);
    while (str_cut(&rest, '&', &pair))
        if (str_eq(str_sub(pair, 0, str_find(pair, '=', 0)), str_from(name)))
            return true;
    return false;
}

/* Checks the value as if it were given by its flag. */
static enum err filter_add_checked(const struct option *row, struct str value, const char *field, struct buf *query,
                                   struct error *e)
{
    cleanup_with(buf_release) struct buf argument;
    cleanup_with(options_release) struct options one;
    buf_init(&argument, value.n + 2 * NAME_TEXT);
    buf_printf(&argument, "--%s=" STR_FMT, row->flag, STR_ARG(value));
    options_init(&one, row, 1);
    struct error why;
    if (options_parse_flags(&one, 1, &argument.p, &why))
        return error_field(e, field, "%s %s", row->flag, why.text);
    filter_add_value(query, row, &one.values[0]);
    return ERR_OK;
}

static enum err filter_add_pair(struct str pair, const char *field, struct buf *query, struct error *e)
{
    size_t equals = str_find(pair, '=', 0);
    struct str name = str_trim(str_sub(pair, 0, equals));
    struct str value = equals < pair.n ? str_trim(str_sub(pair, equals + 1, pair.n)) : S("");
    char shown[QUOTE_TEXT], known[NAME_TEXT];
    quote_text(pair, shown);
    if (name.n == 0 || value.n == 0)
        return error_field(e, field, "contains %s, but must be name=value pairs such as status=PAUSED,queue=mail",
                           shown);
    const struct option *row = filter_find_option(name);
    if (!row)
        return filter_fail_unknown(name, field, e);
    if (filter_query_name(str_from(row->flag), known) && filter_has_name(query, known))
        return error_field(e, field, "contains '%s' twice", row->flag);
    return filter_add_checked(row, value, field, query, e);
}

enum err filter_parse(struct str text, const char *field, struct buf *query, struct error *e)
{
    struct str rest = text, pair;
    if (str_trim(text).n == 0)
        return error_field(e, field, "is empty: write it as status=PAUSED,queue=mail");
    while (str_cut(&rest, ',', &pair)) {
        enum err rc = filter_add_pair(str_trim(pair), field, query, e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

/* Decodes the output of query_add, whose escapes are valid. */
static void filter_add_decoded(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        bool escaped = text.p[i] == '%';
        buf_char(out, escaped ? (char)(hex_value(text.p[i + 1]) * 16 + hex_value(text.p[i + 2])) : text.p[i]);
        i += escaped ? 2 : 0;
    }
}

void filter_json(struct str query, struct jw *w)
{
    struct str rest = str_sub(query, query.n > 0, query.n), pair;
    jw_object(w);
    while (str_cut(&rest, '&', &pair)) {
        cleanup_with(buf_release) struct buf name, value;
        size_t equals = str_find(pair, '=', 0);
        buf_init(&name, NAME_TEXT);
        buf_init(&value, query.n + 1);
        buf_add(&name, str_sub(pair, 0, equals));
        filter_add_decoded(&value, str_sub(pair, min_of(equals + 1, pair.n), pair.n));
        jw_kv_str(w, buf_cstr(&name), buf_str(&value));
    }
    jw_object_end(w);
}
