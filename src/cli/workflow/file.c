#include "cli/workflow/file.h"

#include <stdlib.h>

#include "cli/workflow/lint.h"
#include "cli/yaml.h"
#include "platform/file.h"
#include "workflow/text_place.h"

/* Blanks and comments of a file do not count for the size of a definition; dag_read judges that. */
enum { WORKFLOW_FILE_MAX = 4 * DAG_TEXT_MAX };

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

/* ---- reading ---- */

static const char *workflow_file_shown(const struct workflow_file *f)
{
    return strcmp(f->name, "-") == 0 ? "stdin" : f->name;
}

static enum exit_code workflow_file_refuse(struct cli *cli, const struct workflow_file *f, size_t line,
                                           const struct error *e)
{
    cleanup_with(buf_release) struct buf place;
    buf_init(&place, WORKFLOW_FILE_MAX);
    buf_text(&place, workflow_file_shown(f));
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

/* Prints each error. */
static enum exit_code workflow_file_check(struct cli *cli, struct workflow_file *f)
{
    struct lint_errors *errors = xnew(*errors);
    workflow_lint(&f->text, &f->dag, errors);
    for (size_t i = 0; i < errors->n; i++)
        (void)workflow_file_refuse(cli, f, errors->v[i].line, &errors->v[i].e);
    if (errors->n && errors->has_more)
        fprintf(cli->err, "There may be more errors: check again when these are mended\n");
    enum exit_code code = errors->n ? EXIT_REFUSED : EXIT_DONE;
    free(errors);
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

void workflow_file_note_hidden(struct cli *cli, const struct workflow_file *f)
{
    struct lint_errors *hidden = xnew(*hidden);
    workflow_lint_hidden(&f->text, hidden);
    for (size_t i = 0; i < hidden->n; i++)
        fprintf(
            cli->err,
            "%s:%zu: note: %s is ***: apply keeps the value that the stored step has, and is refused if it has none\n",
            workflow_file_shown(f), hidden->v[i].line, hidden->v[i].e.field);
    free(hidden);
}

void workflow_file_release(struct workflow_file *f)
{
    buf_release(&f->text);
    dag_freep(&f->dag);
}

void workflow_file_compact(const struct workflow_file *f, struct buf *out)
{
    text_compact(buf_str(&f->text), out);
}
