#include "cli/workflow_file.h"

#include <stdlib.h>

#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "cli/yaml.h"
#include "platform/file.h"
#include "workflow/definition.h"

/* Blanks and comments of a file do not count for the size of a definition; dag_read judges that. */
enum { WORKFLOW_FILE_MAX = 4 * DAG_TEXT_MAX, ERRORS_MAX = 20 };

static bool workflow_file_ends(struct str name, struct str end)
{
    return name.n > end.n && str_eq_nocase(str_sub(name, name.n - end.n, name.n), end);
}

static bool workflow_file_is_yaml_name(struct str name)
{
    return workflow_file_ends(name, S(".yaml")) || workflow_file_ends(name, S(".yml"));
}

bool workflow_file_is_named(struct str word)
{
    return str_eq(word, S("-")) || str_find(word, '/', 0) < word.n || workflow_file_is_yaml_name(word) ||
           workflow_file_ends(word, S(".json"));
}

struct str workflow_file_stem(const char *name)
{
    struct str s = str_from(name);
    for (size_t slash; (slash = str_find(s, '/', 0)) < s.n;)
        s = str_sub(s, slash + 1, s.n);
    if (str_eq(s, S("-")))
        return S("");
    return str_sub(s, 0, str_find(s, '.', 0));
}

/* ---- lines ---- */

/* The rest of a path after its first part, if that part names this member or element. */
static bool workflow_path_enter(struct str path, struct str name, bool is_object, size_t index, struct str *ret)
{
    char part[24];
    if (!is_object) {
        snprintf(part, sizeof part, "[%zu]", index);
        name = str_from(part);
    } else if (path.n && path.p[0] == '.') {
        path = str_sub(path, 1, path.n);
    }
    if (!name.n || !str_starts(path, name))
        return false;
    *ret = str_sub(path, name.n, path.n);
    return !ret->n || ret->p[0] == '.' || ret->p[0] == '[';
}

/* The member or element that the path goes through; of two that fit ("a" and "a.b"), the longer one. False: none. */
static bool workflow_path_step(struct str *value, struct str *path, size_t *ret_at, const char *begin)
{
    struct json_cursor c = { .text = *value };
    struct str name, inner, rest, best = { 0 };
    size_t left = SIZE_MAX;
    for (size_t i = 0; json_next(&c, &name, &inner); i++) {
        if (!workflow_path_enter(*path, name, c.is_object, i, &rest) || rest.n >= left)
            continue;
        left = rest.n;
        best = inner;
        *ret_at = (size_t)((c.is_object ? name.p : inner.p) - begin);
    }
    if (left == SIZE_MAX)
        return false;
    *value = best;
    *path = str_sub(*path, path->n - left, path->n);
    return true;
}

static size_t workflow_line_of(struct str json, size_t at)
{
    size_t line = 1;
    for (size_t i = 0; i < at && i < json.n; i++)
        line += json.p[i] == '\n';
    return line;
}

/* A value in JSON text, found by a path. */
struct workflow_place {
    size_t at; /* of its key, within the quotes, or of the value itself if it is an element */
    struct str value;
    bool is_whole, is_member; /* is_whole: the whole path; else the value around */
};

static struct workflow_place workflow_find_path(struct str json, struct str path)
{
    struct workflow_place p = { .value = json };
    while (p.at < json.n && strchr(" \t\r\n", json.p[p.at]))
        p.at++;
    while (path.n && workflow_path_step(&p.value, &path, &p.at, json.p))
        ;
    p.is_whole = !path.n;
    p.is_member = json.p && p.value.p != json.p + p.at;
    return p;
}

size_t workflow_file_line(struct str json, struct str path)
{
    return workflow_line_of(json, workflow_find_path(json, path).at);
}

/* The line in "… (line 3, column 5)", which the JSON parser has at the end of a sentence; removes it from there. 0: it has
 * none. */
static size_t workflow_file_take_line(struct error *e)
{
    static const char mark[] = " (line ";
    char *at = NULL;
    for (char *next = e->text; (next = strstr(next, mark)); next++)
        at = next;
    if (!at)
        return 0;
    size_t line = (size_t)strtoul(at + strlen(mark), NULL, 10);
    *at = '\0';
    return line;
}

/* ---- reading ---- */

static enum exit_code workflow_file_refuse(struct cli *cli, const struct workflow_file *f, size_t line,
                                           const struct error *e)
{
    cleanup_with(buf_release) struct buf place;
    buf_init(&place, WORKFLOW_FILE_MAX);
    buf_text(&place, strcmp(f->name, "-") == 0 ? "stdin" : f->name);
    if (line)
        buf_printf(&place, ":%zu", line);
    return cli_fail_at(cli, buf_cstr(&place), e, EXIT_REFUSED);
}

static bool workflow_file_is_json(const char *name, struct str text)
{
    size_t at = 0;
    if (workflow_file_is_yaml_name(str_from(name)) || workflow_file_ends(str_from(name), S(".json")))
        return !workflow_file_is_yaml_name(str_from(name));
    while (at < text.n && strchr(" \t\r\n", text.p[at]))
        at++;
    return at < text.n && text.p[at] == '{';
}

static enum err workflow_file_convert(struct workflow_file *f, struct buf *raw, size_t *ret_line, struct error *e)
{
    if (!workflow_file_is_json(f->name, buf_str(raw)))
        return yaml_to_json(buf_str(raw), &f->text, ret_line, e);
    buf_release(&f->text);
    f->text = *raw;
    buf_init(raw, raw->max);
    return ERR_OK;
}

/* ---- checking ---- */

/* Overwrites the bytes by blanks; lines stay. */
static void workflow_file_blank(struct buf *text, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (text->p[i] != '\n')
            text->p[i] = ' ';
}

/* The next byte that is no blank, from `at` on in this direction. */
static size_t workflow_file_skip(const struct buf *text, size_t at, int direction)
{
    while (at > 0 && at < text->n && strchr(" \t\r\n", text->p[at]))
        at = direction > 0 ? at + 1 : at - 1;
    return at;
}

/* Removes a member of an object, with a comma. */
static void workflow_file_drop(struct buf *text, const struct workflow_place *p)
{
    size_t key = p->at - 1, end = (size_t)(p->value.p - text->p) + p->value.n;
    size_t after = workflow_file_skip(text, end, 1), before = workflow_file_skip(text, key - 1, -1);
    workflow_file_blank(text, key, end);
    if (after < text->n && text->p[after] == ',')
        text->p[after] = ' ';
    else if (text->p[before] == ',')
        text->p[before] = ' ';
}

/* Writes the name that an error proposes in place of the value: "…; did you mean 'extract'?". */
static bool workflow_file_accept(struct buf *text, const struct workflow_place *p, const struct error *e)
{
    static const char mark[] = "did you mean '";
    const char *from = strstr(e->text, mark), *to = from ? strchr(from + strlen(mark), '\'') : NULL;
    struct buf changed;
    size_t at = (size_t)(p->value.p - text->p);
    if (!to || p->value.p[0] != '"')
        return false;
    from += strlen(mark);
    buf_init(&changed, text->max);
    buf_add(&changed, str_sub(buf_str(text), 0, at + 1));
    json_escape(&changed, (struct str){ from, (size_t)(to - from) });
    buf_add(&changed, str_sub(buf_str(text), at + p->value.n - 1, text->n));
    buf_release(text);
    *text = changed;
    return !text->full;
}

/* Takes the error out of the text, so that the next one is found. False: what comes then may follow from this error. */
static bool workflow_file_mend(struct buf *text, const struct error *e)
{
    struct workflow_place p = workflow_find_path(buf_str(text), str_from(e->field));
    if (!p.is_whole || !e->field[0])
        return false;
    if (!p.is_member)
        return workflow_file_accept(text, &p, e);
    workflow_file_drop(text, &p);
    return true;
}

/* Prints each error; one that was mended does not hide the next. */
static enum exit_code workflow_file_check(struct cli *cli, struct workflow_file *f)
{
    static const struct task_context no_server;
    char last[sizeof(struct error)] = "";
    enum exit_code code = EXIT_DONE;
    for (int i = 0; i < ERRORS_MAX; i++) {
        cleanup_with(json_doc_release) struct json_doc doc = { 0 };
        cleanup_with(buf_release) struct buf text;
        struct error e = { 0 };
        buf_init(&text, f->text.max);
        if (json_parse(buf_str(&f->text), &doc, &e)) {
            size_t line = workflow_file_take_line(&e);
            return workflow_file_refuse(cli, f, line, &e);
        }
        workflow_file_compact(f, &text);
        dag_freep(&f->dag);
        if (!definition_read(buf_str(&text), &no_server, &f->dag, &e))
            return code;
        if (code && str_starts(str_from(last), str_from(e.field)))
            return code; /* it is missing because it was taken out, or the object around it is */
        code = workflow_file_refuse(cli, f, workflow_file_line(buf_str(&f->text), str_from(e.field)), &e);
        snprintf(last, sizeof last, "%s", e.field);
        if (!workflow_file_mend(&f->text, &e))
            return code;
    }
    return code;
}

enum exit_code workflow_file_open(struct cli *cli, const char *name, struct workflow_file *ret)
{
    cleanup_with(buf_release) struct buf raw;
    struct workflow_file f = { .name = name };
    struct error e = { 0 };
    size_t line = 0;
    enum exit_code code;
    buf_init(&raw, WORKFLOW_FILE_MAX);
    buf_init(&f.text, WORKFLOW_FILE_MAX);
    if (file_read(name, &raw, &e))
        code = cli_fail(cli, cli->command->name, &e, EXIT_REFUSED);
    else if (workflow_file_convert(&f, &raw, &line, &e))
        code = workflow_file_refuse(cli, &f, line, &e);
    else
        code = workflow_file_check(cli, &f);
    if (code)
        workflow_file_release(&f);
    else
        *ret = f;
    return code;
}

void workflow_file_release(struct workflow_file *f)
{
    buf_release(&f->text);
    dag_freep(&f->dag);
}

void workflow_file_compact(const struct workflow_file *f, struct buf *out)
{
    struct str s = buf_str(&f->text);
    bool in_text = false;
    for (size_t i = 0; i < s.n; i++) {
        if (in_text && s.p[i] == '\\' && i + 1 < s.n)
            buf_char(out, s.p[i++]);
        else if (s.p[i] == '"')
            in_text = !in_text;
        else if (!in_text && strchr(" \t\r\n", s.p[i]))
            continue;
        buf_char(out, s.p[i]);
    }
}
