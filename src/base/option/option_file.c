/* Parses the file line by line; no construct spans lines. Values are copied, so that they end in NUL like those of
 * argv. Every error ends in the file's name and the line. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/option/option_internal.h"

enum { KEY_TEXT = 96, KEY_MAX = KEY_TEXT - 1 };

struct option_file_reader {
    struct options *o;
    const char *name;
    size_t line;
    struct str section;
    size_t *first_line; /* for each row, the line where it was given; 0: not yet */
    struct error *e;
};

/* Appends " (belfry.conf:3)" to the sentence; shortens the sentence if it is too long. */
static void option_file_add_place(struct option_file_reader *r)
{
    if (!r->e)
        return;
    char where[256];
    int n = snprintf(where, sizeof where, " (%.200s:%zu)", r->name, r->line);
    size_t room = sizeof r->e->text - 1 - (size_t)n;
    size_t from = str_utf8_cut(str_from(r->e->text), room).n;
    snprintf(r->e->text + from, sizeof r->e->text - from, "%s", where);
}

__attribute__((format(printf, 3, 4))) static enum err option_file_refuse(struct option_file_reader *r, const char *key,
                                                                         const char *fmt, ...)
{
    char text[sizeof r->e->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    enum err rc = error_field(r->e, key, "%s", text);
    option_file_add_place(r);
    return rc;
}

static bool option_file_is_key(struct str s)
{
    return s.n <= KEY_MAX && str_is_plain(s, "._-");
}

static bool option_file_is_blank(struct str rest)
{
    rest = str_trim(rest);
    return rest.n == 0 || rest.p[0] == '#';
}

static enum err option_file_read_section(struct option_file_reader *r, struct str line)
{
    size_t end = str_find(line, ']', 0);
    if (end == line.n || !option_file_is_blank(str_sub(line, end + 1, line.n)))
        return option_file_refuse(r, "", "a section must be like [api]");
    struct str name = str_trim(str_sub(line, 1, end));
    if (!option_file_is_key(name))
        return option_file_refuse(r, "", "a section's name must consist of letters, digits, '.', '_' and '-'");
    r->section = name;
    return ERR_OK;
}

/* The character that an escape stands for; 0 if the escape is invalid. */
static char option_file_unescape(char c)
{
    switch (c) {
    case '"':
    case '\\': return c;
    case 'n': return '\n';
    case 't': return '\t';
    default: return 0;
    }
}

static enum err option_file_read_quoted(struct option_file_reader *r, const char *key, struct str line, struct str *ret)
{
    char *out = arena_alloc(&r->o->texts, line.n); /* enough: two quotes go, one NUL comes */
    if (!out)
        return ERR_LIMIT;
    size_t n = 0, i = 1;
    for (; i < line.n && line.p[i] != '"'; i++) {
        char c = line.p[i];
        if (c == '\\') {
            c = ++i < line.n ? option_file_unescape(line.p[i]) : 0;
            if (!c)
                return option_file_refuse(r, key, "has an unknown escape: use \\\" \\\\ \\n or \\t");
        }
        out[n++] = c;
    }
    if (i == line.n)
        return option_file_refuse(r, key, "has no closing quote");
    if (!option_file_is_blank(str_sub(line, i + 1, line.n)))
        return option_file_refuse(r, key, "has text after its closing quote");
    out[n] = '\0';
    *ret = (struct str){ out, n };
    return ERR_OK;
}

/* Removes a comment: a '#' at the start or after a blank, up to the end of the line. */
static struct str option_file_cut_comment(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '#' && (i == 0 || s.p[i - 1] == ' ' || s.p[i - 1] == '\t'))
            return str_trim(str_sub(s, 0, i));
    return s;
}

static enum err option_file_read_value(struct option_file_reader *r, const char *key, struct str text, struct str *ret)
{
    text = str_trim(text);
    if (text.n && text.p[0] == '"')
        return option_file_read_quoted(r, key, text, ret);
    text = option_file_cut_comment(text);
    if (text.n == 0)
        return option_file_refuse(r, key, "needs a value; an empty one is \"\"");
    if (text.p[0] == '\'')
        return option_file_refuse(r, key, "is in single quotes: use double ones, or none");
    return arena_str(&r->o->texts, text, ret) ? ERR_OK : ERR_LIMIT;
}

/* True if the row has this key. The key "brokers.*" matches every name after the dot. */
static bool option_file_row_has_key(const struct option *row, const char *key)
{
    struct str pattern = row->key ? str_from(row->key) : S(""), given = str_from(key);
    if (!option_is_family(row))
        return row->key && str_eq(pattern, given);
    struct str front = str_sub(pattern, 0, pattern.n - 1);
    return given.n > front.n && str_starts(given, front);
}

static size_t option_file_row_by_key(const struct option *rows, size_t count, const char *key)
{
    size_t i = 0;
    while (i < count && !option_file_row_has_key(&rows[i], key))
        i++;
    return i;
}

static enum err option_file_refuse_unknown(struct option_file_reader *r, const char *key)
{
    struct suggest s;
    suggest_init(&s, str_from(key));
    for (size_t i = 0; i < r->o->count; i++)
        if (r->o->rows[i].key)
            suggest_offer(&s, str_from(r->o->rows[i].key));
    if (s.closest.p)
        return option_file_refuse(r, key, "is unknown, did you mean '" STR_FMT "'?", STR_ARG(s.closest));
    return option_file_refuse(r, key, "is unknown");
}

/* Turns "brokers.orders = redis://…" into the form that the flag takes: "orders=redis://…". */
static enum err option_file_prefix_name(struct option_file_reader *r, const struct option *row, const char *key,
                                        struct str *value)
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

static bool option_file_is_in_list(const struct option_value *v, struct str text)
{
    struct str front = str_sub(text, 0, str_find(text, '=', 0) + 1);
    for (size_t i = 0; v->source == FROM_FILE && i < v->list_count; i++)
        if (str_starts(v->list[i], front))
            return true;
    return false;
}

/* Reads the value of row i. If the row belongs to another command (`mine` is false), the value is only checked. */
static enum err option_file_value(struct option_file_reader *r, size_t i, const char *key, struct str written,
                                  bool mine, struct str *ret)
{
    enum err rc = option_file_read_value(r, key, written, ret);
    if (rc == ERR_OK && mine && option_is_family(&r->o->rows[i]))
        rc = option_file_prefix_name(r, &r->o->rows[i], key, ret);
    return rc == ERR_LIMIT
               ? error_set(r->e, rc, "'%s' is too large: its values do not fit in the memory allowed", r->name)
               : rc;
}

static enum err option_file_set(struct option_file_reader *r, const char *key, struct str written)
{
    size_t i = option_file_row_by_key(r->o->rows, r->o->count, key);
    bool mine = i < r->o->count;
    struct str value;
    if (!mine && option_file_row_by_key(r->o->beside, r->o->beside_count, key) == r->o->beside_count)
        return option_file_refuse_unknown(r, key);
    if (mine && r->first_line[i] && !option_is_family(&r->o->rows[i]))
        return option_file_refuse(r, key, "is given twice, first in line %zu", r->first_line[i]);
    enum err rc = option_file_value(r, i, key, written, mine, &value);
    if (rc || !mine)
        return rc;
    if (option_is_family(&r->o->rows[i]) && option_file_is_in_list(&r->o->values[i], value))
        return option_file_refuse(r, key, "is given twice");
    r->first_line[i] = r->line;
    if (r->o->placed)
        r->o->placed(r->o->context, key, r->line);
    rc = option_set(r->o, i, key, value, FROM_FILE, r->e);
    if (rc)
        option_file_add_place(r);
    return rc;
}

static enum err option_file_read_pair(struct option_file_reader *r, struct str line)
{
    size_t equals = str_find(line, '=', 0);
    struct str name = str_trim(str_sub(line, 0, equals));
    if (equals == line.n || !option_file_is_key(name))
        return option_file_refuse(r, "", "a line must be like key = value");
    char key[KEY_TEXT];
    int n =
        snprintf(key, sizeof key, STR_FMT "%s" STR_FMT, STR_ARG(r->section), r->section.n ? "." : "", STR_ARG(name));
    if (n > KEY_MAX)
        return option_file_refuse(r, key, "is longer than %d bytes, the longest key allowed", KEY_MAX);
    return option_file_set(r, key, str_sub(line, equals + 1, line.n));
}

static bool option_file_has_control(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' && s.p[i] != '\t')
            return true;
    return false;
}

static enum err option_file_read_line(struct option_file_reader *r, struct str line)
{
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    line = str_trim(line);
    if (!str_is_utf8(line))
        return option_file_refuse(r, "", "a line is not UTF-8");
    if (option_file_has_control(line))
        return option_file_refuse(r, "", "a line holds a control character");
    if (option_file_is_blank(line))
        return ERR_OK;
    return line.p[0] == '[' ? option_file_read_section(r, line) : option_file_read_pair(r, line);
}

static void option_file_free_lines(size_t **p)
{
    free(*p);
}

enum err options_parse_file(struct options *o, const char *name, struct str text, struct error *e)
{
    if (text.n > OPTION_FILE_MAX)
        return error_set(e, ERR_LIMIT, "'%s' is longer than %d bytes", name, OPTION_FILE_MAX);
    cleanup_with(option_file_free_lines) size_t *first_line = xcalloc(o->count, sizeof *first_line);
    struct option_file_reader r = { .o = o, .name = name, .section = S(""), .first_line = first_line, .e = e };
    struct str line;
    enum err first = ERR_OK;
    while (str_cut(&text, '\n', &line)) {
        r.line++;
        enum err rc = option_file_read_line(&r, line);
        if (rc && !o->refused)
            return rc;
        if (rc)
            o->refused(o->context, e);
        first = first ? first : rc;
    }
    return first;
}

bool options_end_at(const struct options *o, const struct error *e)
{
    if (o->refused)
        o->refused(o->context, e);
    return !o->refused;
}
