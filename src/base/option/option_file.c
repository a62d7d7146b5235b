/* One line at a time, each complete in itself. Values are copied, so that a NUL stands behind them like behind those of
 * argv. Every refusal ends in the file's name and the line. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/option/option_internal.h"

enum { KEY_TEXT = 96, KEY_MAX = KEY_TEXT - 1 };

struct reader {
    struct options *o;
    const char *name;
    size_t line;
    struct str section;
    size_t *first_line; /* of each row: where it was given; 0: not yet */
    struct error *e;
};

/* Puts " (belfry.conf:3)" behind the sentence, at the cost of its end if need be. */
static void say_where(struct reader *r)
{
    if (!r->e)
        return;
    char where[256];
    int n = snprintf(where, sizeof where, " (%.200s:%zu)", r->name, r->line);
    size_t room = sizeof r->e->text - 1 - (size_t)n;
    size_t from = str_utf8_cut(str_from(r->e->text), room).n;
    snprintf(r->e->text + from, sizeof r->e->text - from, "%s", where);
}

__attribute__((format(printf, 3, 4))) static enum err refuse(struct reader *r, const char *key, const char *fmt, ...)
{
    char text[sizeof r->e->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    enum err rc = error_field(r->e, key, "%s", text);
    say_where(r);
    return rc;
}

static bool is_key(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = ascii_lower(s.p[i]);
        if (!(c >= 'a' && c <= 'z') && !is_digit(c) && c != '.' && c != '_' && c != '-')
            return false;
    }
    return s.n > 0 && s.n <= KEY_MAX;
}

static bool settle_retry_line(struct str rest)
{
    rest = str_trim(rest);
    return rest.n == 0 || rest.p[0] == '#';
}

static enum err read_section(struct reader *r, struct str line)
{
    size_t end = str_find(line, ']', 0);
    if (end == line.n || !settle_retry_line(str_sub(line, end + 1, line.n)))
        return refuse(r, "", "a section must be like [api]");
    struct str name = str_trim(str_sub(line, 1, end));
    if (!is_key(name))
        return refuse(r, "", "a section's name is letters, digits, '.', '_' and '-'");
    r->section = name;
    return ERR_OK;
}

/* The character an escape stands for; 0: none. */
static char unescape(char c)
{
    switch (c) {
    case '"':
    case '\\': return c;
    case 'n': return '\n';
    case 't': return '\t';
    default: return 0;
    }
}

static enum err read_quoted(struct reader *r, const char *key, struct str line, struct str *ret)
{
    char *out = arena_alloc(&r->o->texts, line.n); /* less than its source: the quotes go, the NUL comes */
    if (!out)
        return ERR_LIMIT;
    size_t n = 0, i = 1;
    for (; i < line.n && line.p[i] != '"'; i++) {
        char c = line.p[i];
        if (c == '\\') {
            c = ++i < line.n ? unescape(line.p[i]) : 0;
            if (!c)
                return refuse(r, key, "has a \\ that begins none of \\\" \\\\ \\n \\t");
        }
        out[n++] = c;
    }
    if (i == line.n)
        return refuse(r, key, "has no closing quote");
    if (!settle_retry_line(str_sub(line, i + 1, line.n)))
        return refuse(r, key, "has text behind its closing quote");
    out[n] = '\0';
    *ret = (struct str){ out, n };
    return ERR_OK;
}

/* Up to the end of the line, or to a '#' with a blank before it. */
static struct str before_comment(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '#' && (i == 0 || s.p[i - 1] == ' ' || s.p[i - 1] == '\t'))
            return str_trim(str_sub(s, 0, i));
    return s;
}

static enum err read_value(struct reader *r, const char *key, struct str text, struct str *ret)
{
    text = str_trim(text);
    if (text.n && text.p[0] == '"')
        return read_quoted(r, key, text, ret);
    text = before_comment(text);
    if (text.n == 0)
        return refuse(r, key, "needs a value; an empty one is \"\"");
    if (text.p[0] == '\'')
        return refuse(r, key, "is in single quotes: use double ones, or none");
    return arena_str(&r->o->texts, text, ret) ? ERR_OK : ERR_LIMIT;
}

/* "brokers.*" stands for all names behind the point. */
static bool is_of(const struct option *row, const char *key)
{
    struct str pattern = row->key ? str_from(row->key) : S(""), given = str_from(key);
    if (!option_is_family(row))
        return row->key && str_eq(pattern, given);
    struct str front = str_sub(pattern, 0, pattern.n - 1);
    return given.n > front.n && str_starts(given, front);
}

static size_t row_by_key(const struct option *rows, size_t count, const char *key)
{
    size_t i = 0;
    while (i < count && !is_of(&rows[i], key))
        i++;
    return i;
}

static enum err refuse_unknown(struct reader *r, const char *key)
{
    struct suggest s;
    suggest_init(&s, str_from(key));
    for (size_t i = 0; i < r->o->count; i++)
        if (r->o->rows[i].key)
            suggest_offer(&s, str_from(r->o->rows[i].key));
    if (s.closest.p)
        return refuse(r, key, "is unknown, did you mean '" STR_FMT "'?", STR_ARG(s.closest));
    return refuse(r, key, "is unknown");
}

/* "brokers.orders = redis://…" as the flag says it: "orders=redis://…". */
static enum err name_in_front(struct reader *r, const struct option *row, const char *key, struct str *value)
{
    const char *name = key + strlen(row->key) - 1;
    size_t n = strlen(name) + 1 + value->n;
    char *out = arena_alloc(&r->o->texts, n + 1);
    if (!out)
        return ERR_LIMIT;
    snprintf(out, n + 1, "%s=" STR_FMT, name, STR_ARG(*value));
    *value = (struct str){ out, n };
    return ERR_OK;
}

static bool is_in_list(const struct option_value *v, struct str text)
{
    struct str front = str_sub(text, 0, str_find(text, '=', 0) + 1);
    for (size_t i = 0; v->source == FROM_FILE && i < v->list_count; i++)
        if (str_starts(v->list[i], front))
            return true;
    return false;
}

/* The value of row i; of one that belongs to another (`mine` false) it is only looked at. */
static enum err value_of(struct reader *r, size_t i, const char *key, struct str written, bool mine, struct str *ret)
{
    enum err rc = read_value(r, key, written, ret);
    if (rc == ERR_OK && mine && option_is_family(&r->o->rows[i]))
        rc = name_in_front(r, &r->o->rows[i], key, ret);
    return rc == ERR_LIMIT ? error_set(r->e, rc, "'%s' holds more than can be kept", r->name) : rc;
}

static enum err set(struct reader *r, const char *key, struct str written)
{
    size_t i = row_by_key(r->o->rows, r->o->count, key);
    bool mine = i < r->o->count;
    struct str value;
    if (!mine && row_by_key(r->o->beside, r->o->beside_count, key) == r->o->beside_count)
        return refuse_unknown(r, key);
    if (mine && r->first_line[i] && !option_is_family(&r->o->rows[i]))
        return refuse(r, key, "is given twice, first in line %zu", r->first_line[i]);
    enum err rc = value_of(r, i, key, written, mine, &value);
    if (rc || !mine)
        return rc;
    if (option_is_family(&r->o->rows[i]) && is_in_list(&r->o->values[i], value))
        return refuse(r, key, "is given twice");
    r->first_line[i] = r->line;
    rc = option_set(r->o, i, key, value, FROM_FILE, r->e);
    if (rc)
        say_where(r);
    return rc;
}

static enum err read_pair(struct reader *r, struct str line)
{
    size_t equals = str_find(line, '=', 0);
    struct str name = str_trim(str_sub(line, 0, equals));
    if (equals == line.n || !is_key(name))
        return refuse(r, "", "a line must be like key = value");
    char key[KEY_TEXT];
    int n =
        snprintf(key, sizeof key, STR_FMT "%s" STR_FMT, STR_ARG(r->section), r->section.n ? "." : "", STR_ARG(name));
    if (n > KEY_MAX)
        return refuse(r, key, "is longer than any key");
    return set(r, key, str_sub(line, equals + 1, line.n));
}

static bool has_control(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' && s.p[i] != '\t')
            return true;
    return false;
}

static enum err read_line(struct reader *r, struct str line)
{
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    line = str_trim(line);
    if (!str_is_utf8(line))
        return refuse(r, "", "a line is not UTF-8");
    if (has_control(line))
        return refuse(r, "", "a line holds a control character");
    if (settle_retry_line(line))
        return ERR_OK;
    return line.p[0] == '[' ? read_section(r, line) : read_pair(r, line);
}

static void free_lines(size_t **p)
{
    free(*p);
}

enum err options_parse_file(struct options *o, const char *name, struct str text, struct error *e)
{
    if (text.n > OPTION_FILE_MAX)
        return error_set(e, ERR_LIMIT, "'%s' is longer than %d bytes", name, OPTION_FILE_MAX);
    cleanup_with(free_lines) size_t *first_line = xcalloc(o->count, sizeof *first_line);
    struct reader r = { .o = o, .name = name, .section = S(""), .first_line = first_line, .e = e };
    struct str line;
    while (str_cut(&text, '\n', &line)) {
        r.line++;
        enum err rc = read_line(&r, line);
        if (rc)
            return rc;
    }
    return ERR_OK;
}
