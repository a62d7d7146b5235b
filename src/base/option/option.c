/* Every source calls option_set, which checks the value against its row and stores it unless a source of higher
 * priority has set it. The error's field is the name that the source uses: a flag, a variable or a key. */
#include "base/option/option.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/option/option_internal.h"
#include "base/rfc3339.h"
#include "base/sentence.h"

enum { NAME_TEXT = 64 };

/* A value that is being checked. */
struct option_given_value {
    const struct option *row;
    const char *name; /* as its source names it */
    struct str text;
    struct error *e;
};

struct range option_range(const struct option *row)
{
    bool is_duration = row->type == OPTION_DURATION;
    struct range r = {
        .least = is_duration ? 0 : INT64_MIN,
        .most = is_duration ? DURATION_MAX_MS : INT64_MAX,
        .is_duration = is_duration,
    };
    bool none = row->min == 0 && row->max == 0;
    r.min = none ? r.least : row->min;
    r.max = none ? r.most : row->max;
    return r;
}

bool option_is_family(const struct option *row)
{
    size_t n = row->key ? strlen(row->key) : 0;
    return n > 2 && strcmp(row->key + n - 2, ".*") == 0;
}

static enum err option_refuse(const struct option_given_value *g, const char *must, const char *what)
{
    char shown[QUOTE_TEXT];
    quote_text(g->text, shown);
    return error_field(g->e, g->name, "must be %s%s, not %s", must, what, shown);
}

static enum err option_check_flag(const struct option_given_value *g, int64_t *ret)
{
    *ret = str_eq(g->text, S("true"));
    return *ret || str_eq(g->text, S("false")) ? ERR_OK : option_refuse(g, "true or false", "");
}

static enum err option_check_int(const struct option_given_value *g, int64_t *ret)
{
    struct range r = option_range(g->row);
    char range[RANGE_TEXT];
    range_text(r, range);
    if (str_to_i64(g->text, r.min, r.max, ret))
        return ERR_OK;
    if (!str_to_i64(g->text, INT64_MIN, INT64_MAX, ret))
        return option_refuse(g, range[0] ? "a whole number " : "a whole number", range);
    return option_refuse(g, "", range);
}

static enum err option_check_duration(const struct option_given_value *g, int64_t *ret)
{
    struct error why;
    if (duration_parse(g->text, ret, &why))
        return error_field(g->e, g->name, "%s", why.text);
    struct range r = option_range(g->row);
    char range[RANGE_TEXT];
    range_text(r, range);
    return *ret >= r.min && *ret <= r.max ? ERR_OK : option_refuse(g, "", range);
}

static enum err option_check_time(const struct option_given_value *g, int64_t *ret)
{
    struct error why;
    if (rfc3339_parse(g->text, ret, &why))
        return error_field(g->e, g->name, "%s", why.text);
    return ERR_OK;
}

static bool option_read_date(struct str text, int64_t *ret)
{
    enum { DATE = 10 };
    char first[DATE + sizeof "T00:00:00Z"];
    struct error ignored;
    int n =
        snprintf(first, sizeof first, STR_FMT "T00:00:00Z", STR_ARG(str_sub(text, 0, min_of(text.n, (size_t)DATE))));
    return text.n == DATE && !rfc3339_parse((struct str){ first, (size_t)n }, ret, &ignored);
}

static enum err option_check_day(const struct option_given_value *g, int64_t *ret)
{
    return option_read_date(g->text, ret) ? ERR_OK : option_check_time(g, ret);
}

static enum err option_check_past(const struct option_given_value *g, int64_t *ret)
{
    struct error why;
    if (duration_parse(g->text, ret, &why) == ERR_OK) {
        *ret = -max_of(*ret, (int64_t)1);
        return ERR_OK;
    }
    if (!option_read_date(g->text, ret) && rfc3339_parse(g->text, ret, &why))
        return option_refuse(g, "a time such as 2026-02-10T08:00:00Z, a date, or how long ago, such as 2h", "");
    *ret = max_of(*ret, (int64_t)0);
    return ERR_OK;
}

static enum err option_check_choice(const struct option_given_value *g, int64_t *ret)
{
    struct str rest = str_from(g->row->choices), choice;
    char list[256];
    size_t n = 0;
    struct suggest near;
    suggest_init(&near, g->text);
    for (*ret = 0; str_cut(&rest, '|', &choice); ++*ret) {
        if (str_eq_nocase(choice, g->text))
            return ERR_OK;
        suggest_offer(&near, choice);
        n += (size_t)snprintf(list + n, sizeof list - n, "%s" STR_FMT, n ? ", " : "", STR_ARG(choice));
        assert(n < sizeof list);
    }
    enum err rc = option_refuse(g, "one of ", list);
    size_t end = strlen(g->e->text);
    if (near.closest.p)
        snprintf(g->e->text + end, sizeof g->e->text - end, "; did you mean '" STR_FMT "'?", STR_ARG(near.closest));
    return rc;
}

/* The name of a file may be any bytes, and a body is read by who takes it. */
static bool option_takes_bytes(const struct option *row)
{
    return row->value && (strstr(row->value, "FILE") || strstr(row->value, "DIR") || strstr(row->value, "BODY"));
}

static enum err option_check_text(const struct option_given_value *g, int64_t *ret)
{
    *ret = 0;
    if (!str_is_utf8(g->text) && !option_takes_bytes(g->row))
        return option_refuse(g, "UTF-8 text", "");
    return ERR_OK;
}

static enum err (*const option_checks[])(const struct option_given_value *g, int64_t *ret) = {
    [OPTION_TEXT] = option_check_text,         [OPTION_FLAG] = option_check_flag, [OPTION_INT] = option_check_int,
    [OPTION_DURATION] = option_check_duration, [OPTION_TIME] = option_check_time, [OPTION_CHOICE] = option_check_choice,
    [OPTION_DAY] = option_check_day,           [OPTION_PAST] = option_check_past, [OPTION_LIST] = option_check_text,
};

static enum err option_add_to_list(struct option_value *v, const struct option_given_value *g)
{
    if (v->list_count == OPTION_LIST_MAX)
        return error_field(g->e, g->name, "may be given at most %d times", OPTION_LIST_MAX);
    v->list[v->list_count++] = g->text;
    return ERR_OK;
}

enum err option_set(struct options *o, size_t i, const char *name, struct str text, enum option_source source,
                    struct error *e)
{
    struct option_given_value g = { .row = &o->rows[i], .name = name, .text = text, .e = e };
    struct option_value *v = &o->values[i];
    int64_t number;
    if (option_checks[g.row->type](&g, &number))
        return ERR_INVALID;
    if (source < v->source)
        return ERR_OK;
    if (source > v->source)
        v->list_count = 0;
    if (g.row->type == OPTION_LIST && option_add_to_list(v, &g))
        return ERR_INVALID;
    v->text = text;
    v->number = number;
    v->source = source;
    return ERR_OK;
}

void options_init(struct options *o, const struct option *rows, size_t count)
{
    *o = (struct options){ .rows = rows, .count = count, .values = xcalloc(count, sizeof *o->values) };
    arena_init(&o->texts, OPTION_FILE_MAX * 2);
    for (size_t i = 0; i < count; i++) {
        struct error e;
        assert((rows[i].type == OPTION_CHOICE) == (rows[i].choices != NULL));
        assert(!option_is_family(&rows[i]) || rows[i].type == OPTION_LIST);
        if (rows[i].preset && option_set(o, i, "preset", str_from(rows[i].preset), FROM_PRESET, &e))
            assert(!"a preset must satisfy its own row");
    }
}

void options_release(struct options *o)
{
    free(o->values);
    free(o->words);
    arena_release(&o->texts);
    *o = (struct options){ 0 };
}

/* State of the command line parser. */
struct option_args {
    struct options *o;
    int argc;
    char *const *argv;
    int next; /* index of the next argument */
    struct error *e;
};

static size_t option_row_by_flag(const struct options *o, struct str flag)
{
    size_t i = 0;
    while (i < o->count && !(o->rows[i].flag && str_eq(str_from(o->rows[i].flag), flag)))
        i++;
    return i;
}

/* --no-color: the row of `color`, if that is a flag. */
static size_t option_row_by_negated(const struct options *o, struct str flag)
{
    if (!str_starts(flag, S("no-")))
        return o->count;
    size_t i = option_row_by_flag(o, str_sub(flag, 3, flag.n));
    return i < o->count && o->rows[i].type == OPTION_FLAG ? i : o->count;
}

static size_t option_row_by_letter(const struct options *o, char letter)
{
    size_t i = 0;
    while (i < o->count && o->rows[i].letter != letter)
        i++;
    return i;
}

/* True if the argument is an option of the table, and therefore probably not the value of the option before it. */
static bool option_is_option(const struct options *o, const char *arg)
{
    struct str s = str_from(arg);
    if (!str_starts(s, S("-")) || s.n < 2)
        return false;
    if (!str_starts(s, S("--")))
        return option_row_by_letter(o, s.p[1]) < o->count;
    struct str flag = str_sub(s, 2, str_find(s, '=', 2));
    return flag.n == 0 || option_row_by_flag(o, flag) < o->count || option_row_by_negated(o, flag) < o->count;
}

/* `inline_value` is the value in the same argument ("--flag=value"); p is NULL if there is none. */
static enum err option_take_value(struct option_args *a, size_t row, const char *name, struct str inline_value)
{
    struct str text = inline_value;
    if (!text.p) {
        if (a->next == a->argc)
            return error_field(a->e, name, "needs a value");
        if (option_is_option(a->o, a->argv[a->next]))
            return error_field(a->e, name, "needs a value, but '%s' is an option", a->argv[a->next]);
        text = str_from(a->argv[a->next++]);
    }
    return option_set(a->o, row, name, text, FROM_FLAG, a->e);
}

static enum err option_refuse_unknown(struct option_args *a, const char *name, struct str flag)
{
    struct suggest s;
    suggest_init(&s, flag);
    for (size_t i = 0; i < a->o->count; i++)
        if (a->o->rows[i].flag)
            suggest_offer(&s, str_from(a->o->rows[i].flag));
    if (s.closest.p)
        return error_field(a->e, name, "is not an option, did you mean --" STR_FMT "?", STR_ARG(s.closest));
    return error_field(a->e, name, "is not an option");
}

static enum err option_parse_long(struct option_args *a, struct str arg)
{
    size_t equals = str_find(arg, '=', 0);
    struct str flag = str_sub(arg, 2, equals);
    struct str value = equals < arg.n ? str_sub(arg, equals + 1, arg.n) : (struct str){ NULL, 0 };
    char name[NAME_TEXT];
    snprintf(name, sizeof name, STR_FMT, STR_ARG(str_utf8_cut(str_sub(arg, 0, equals), NAME_TEXT - 1)));
    size_t row = option_row_by_flag(a->o, flag), negated = option_row_by_negated(a->o, flag);
    bool is_negated = row == a->o->count && negated < a->o->count;
    if (is_negated)
        row = negated;
    if (row == a->o->count)
        return option_refuse_unknown(a, name, flag);
    if (a->o->rows[row].type != OPTION_FLAG)
        return option_take_value(a, row, name, value);
    if (value.p)
        return error_field(a->e, name, "takes no value");
    return option_set(a->o, row, name, is_negated ? S("false") : S("true"), FROM_FLAG, a->e);
}

/* Parses -X value, -Xvalue, and combined flags: -vq. */
static enum err option_parse_letters(struct option_args *a, struct str arg)
{
    for (size_t i = 1; i < arg.n; i++) {
        size_t row = option_row_by_letter(a->o, arg.p[i]);
        struct str rest = str_sub(arg, i + 1, arg.n);
        char name[NAME_TEXT];
        snprintf(name, sizeof name, "-%c", arg.p[i]);
        if (row == a->o->count)
            return option_refuse_unknown(a, i == 1 ? arg.p : name, str_sub(arg, 1, arg.n));
        if (a->o->rows[row].type != OPTION_FLAG)
            return option_take_value(a, row, name, rest.n ? rest : (struct str){ NULL, 0 });
        enum err rc = option_set(a->o, row, name, S("true"), FROM_FLAG, a->e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

enum err options_parse_flags(struct options *o, int argc, char *const *argv, struct error *e)
{
    assert(!o->words);
    struct option_args a = { .o = o, .argc = argc, .argv = argv, .e = e };
    bool only_words = false;
    o->words = xcalloc((size_t)argc, sizeof *o->words);
    while (a.next < argc) {
        struct str arg = str_from(argv[a.next++]);
        enum err rc = ERR_OK;
        if (only_words || !str_starts(arg, S("-")) || arg.n == 1)
            o->words[o->word_count++] = arg;
        else if (str_eq(arg, S("--")))
            only_words = true;
        else
            rc = str_starts(arg, S("--")) ? option_parse_long(&a, arg) : option_parse_letters(&a, arg);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

void option_env_name(const char *key, char out[OPTION_ENV_TEXT])
{
    int n = snprintf(out, OPTION_ENV_TEXT, "BELFRY_%s", key);
    assert(n > 0 && n < OPTION_ENV_TEXT);
    for (char *c = out; *c; c++) {
        if (*c == '.' || *c == '-')
            *c = '_';
        else if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c & ~0x20);
    }
}

enum err options_parse_env(struct options *o, const char *(*lookup)(const char *name), struct error *e)
{
    for (size_t i = 0; i < o->count; i++) {
        if (!o->rows[i].key || option_is_family(&o->rows[i]))
            continue;
        char name[OPTION_ENV_TEXT];
        option_env_name(o->rows[i].key, name);
        const char *text = lookup(name);
        enum err rc = text ? option_set(o, i, name, str_from(text), FROM_ENV, e) : ERR_OK;
        if (rc)
            return rc;
    }
    return ERR_OK;
}

const struct option_value *option_get(const struct options *o, const char *name)
{
    size_t i = option_row_by_flag(o, str_from(name));
    for (size_t k = 0; i == o->count && k < o->count; k++)
        if (!o->rows[k].flag && o->rows[k].key && strcmp(o->rows[k].key, name) == 0)
            i = k;
    assert(i < o->count);
    return &o->values[i];
}

bool option_given(const struct options *o, const char *name)
{
    return option_get(o, name)->source > FROM_PRESET;
}

int64_t option_past_ms(const struct options *o, const char *name, int64_t now_ms)
{
    int64_t ms = option_get(o, name)->number;
    return ms < 0 ? max_of(now_ms + ms, (int64_t)0) : ms;
}

bool option_known(const struct options *o, const char *flag)
{
    return option_row_by_flag(o, str_from(flag)) < o->count;
}
