/* An error is noted and mended in the text, which is read again, until it has none:
 *  - a misspelled name becomes the one that was meant;
 *  - a wrong field is taken out;
 *  - a wrong dependency becomes one on a step that is added at the end.
 * An error that may follow from an earlier one is mended, too, but not noted. Mending changes no line and no path. */
#include "workflow/definition_errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "workflow/text_place.h"

enum {
    LOOKS_MAX = 200,
    FIELD_TEXT = 96,
    NAME_TEXT = 64,
    NOTES_MAX = 64 * 1024,
    READ_COST = 8, /* a text that is read and checked, compared with one that is searched for a path */
    ANSWERED_ERRORS_MAX = 20,
    ANSWERED_BYTES_MAX = 64 << 20
};

struct mending {
    struct buf *text;
    const struct task_context *context;
    struct definition_errors *errors;
    struct buf mended;       /* paths that were changed, each between two line ends */
    struct buf renamed;      /* names that were replaced, likewise */
    struct buf guessed;      /* paths of fields whose name was unknown, and is another now, likewise */
    bool lost_edges;         /* a dependency was replaced: a step may no longer wait for what it refers to */
    unsigned added;          /* names that were made up */
    size_t bytes, bytes_max; /* of text that was searched */
};

/* ---- paths ---- */

/* The index of the step in "steps[3].name"; -1: it is elsewhere. */
static long mending_step_of(const char *field)
{
    static const char start[] = "steps[";
    return strncmp(field, start, strlen(start)) == 0 ? strtol(field + strlen(start), NULL, 10) : -1;
}

/* "target_config.url" of "steps[3].target_config.url"; "" if it is the step itself. */
static const char *mending_below_step(const char *field)
{
    const char *dot = strchr(field, ']');
    return dot && dot[1] == '.' ? dot + 2 : "";
}

static bool mending_is_depends(const char *field)
{
    return strncmp(mending_below_step(field), "depends_on[", strlen("depends_on[")) == 0;
}

static void mending_step_path(long step, const char *member, char out[FIELD_TEXT])
{
    snprintf(out, FIELD_TEXT, "steps[%ld]%s%s", step, member[0] ? "." : "", member);
}

/* If no effort is left, nothing is found, so that the search ends. */
static struct text_place mending_find(struct mending *m, const char *path)
{
    m->bytes += m->text->n;
    return text_place_find(m->bytes > m->bytes_max ? S("") : buf_str(m->text), str_from(path));
}

/* ---- changing the text: lines stay ---- */

static void mending_blank(struct mending *m, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (m->text->p[i] != '\n')
            m->text->p[i] = ' ';
}

/* The next byte that is no blank, from `at` on in this direction. */
static size_t mending_skip(const struct mending *m, size_t at, int direction)
{
    while (at > 0 && at < m->text->n && strchr(" \t\r\n", m->text->p[at]))
        at = direction > 0 ? at + 1 : at - 1;
    return at;
}

/* Replaces `bytes` bytes. False: there is no room. */
static bool mending_splice(struct mending *m, size_t at, size_t bytes, struct str by)
{
    struct buf changed;
    struct str text = buf_str(m->text);
    buf_init(&changed, m->text->max);
    buf_add(&changed, str_sub(text, 0, at));
    buf_add(&changed, by);
    buf_add(&changed, str_sub(text, at + bytes, text.n));
    buf_release(m->text);
    *m->text = changed;
    return !m->text->full;
}

/* Takes a member out of its object, with a comma. */
static bool mending_drop(struct mending *m, const struct text_place *p)
{
    size_t key = p->at - 1, end = (size_t)(p->value.p - m->text->p) + p->value.n;
    size_t after = mending_skip(m, end, 1), before = mending_skip(m, key - 1, -1);
    mending_blank(m, key, end);
    if (after < m->text->n && m->text->p[after] == ',')
        m->text->p[after] = ' ';
    else if (m->text->p[before] == ',')
        m->text->p[before] = ' ';
    return true;
}

static bool mending_drop_path(struct mending *m, const char *path)
{
    struct text_place p = mending_find(m, path);
    return p.is_whole && p.is_member && mending_drop(m, &p);
}

/* Adds a member at the beginning of a step. */
static bool mending_add_member(struct mending *m, long step, const char *member, const char *value)
{
    char path[FIELD_TEXT], text[FIELD_TEXT + NAME_TEXT];
    mending_step_path(step, "", path);
    struct text_place p = mending_find(m, path);
    if (!p.is_whole || p.value.p[0] != '{')
        return false;
    size_t at = (size_t)(p.value.p - m->text->p) + 1;
    bool is_empty = m->text->p[mending_skip(m, at, 1)] == '}';
    snprintf(text, sizeof text, "\"%s\":\"%s\"%s", member, value, is_empty ? "" : ",");
    return mending_splice(m, at, 0, str_from(text));
}

static void mending_make_name(struct mending *m, char out[NAME_TEXT])
{
    snprintf(out, NAME_TEXT, "made.up.name.%u", m->added++);
}

/* Adds a step at the end, so that no path changes. */
static bool mending_add_step(struct mending *m, char ret_name[NAME_TEXT])
{
    char text[2 * NAME_TEXT];
    struct text_place p = mending_find(m, "steps");
    if (!p.is_whole || p.value.p[0] != '[')
        return false;
    mending_make_name(m, ret_name);
    snprintf(text, sizeof text, ",{\"name\":\"%s\",\"target_type\":\"NOOP\"}", ret_name);
    return mending_splice(m, (size_t)(p.value.p - m->text->p) + p.value.n - 1, 0, str_from(text));
}

static bool mending_set_text(struct mending *m, const char *path, const char *value)
{
    char text[NAME_TEXT + 2];
    struct text_place p = mending_find(m, path);
    if (!p.is_whole)
        return false;
    size_t at = (size_t)(p.value.p - m->text->p), lines = 0;
    for (size_t i = 0; i < p.value.n; i++)
        lines += p.value.p[i] == '\n';
    snprintf(text, sizeof text, "\"%s\"", value);
    if (!mending_splice(m, at, p.value.n, str_from(text)))
        return false;
    for (; lines; lines--)
        if (!mending_splice(m, at + strlen(text), 0, S("\n")))
            return false;
    return true;
}

/* ---- mending ---- */

/* The text between quotes that begins at `mark`. */
static struct str mending_quoted(const char *text, const char *mark)
{
    const char *from = strstr(text, mark), *to = from ? strchr(from + strlen(mark), '\'') : NULL;
    return to ? (struct str){ from + strlen(mark), (size_t)(to - from) - strlen(mark) } : S("");
}

/* "priority" for a field that is unknown: the key is changed, unless the object has one of that name. */
static bool mending_rename_key(struct mending *m, const struct text_place *p, const struct error *e)
{
    char sibling[FIELD_TEXT + NAME_TEXT];
    struct str meant = mending_quoted(e->text, "did you mean '");
    const char *dot = strrchr(e->field, '.');
    int above = dot ? (int)(dot - e->field) + 1 : 0;
    if (strncmp(e->text, "is unknown", strlen("is unknown")) != 0 || !meant.n || meant.n >= NAME_TEXT ||
        meant.p[0] == '$') /* what is below "$ref" and the like would be wrong, too */
        return false;
    snprintf(sibling, sizeof sibling, "%.*s" STR_FMT, above, e->field, STR_ARG(meant));
    size_t key = str_find(str_sub(buf_str(m->text), p->at, m->text->n), '"', 0);
    if (mending_find(m, sibling).is_whole || !mending_splice(m, p->at, key, meant))
        return false;
    buf_printf(&m->guessed, "\n%s\n", sibling);
    return true;
}

/* Writes the name that an error proposes in place of the wrong one: "no step is named 'x'; did you mean 'y'?". */
static bool mending_accept(struct mending *m, const struct text_place *p, const struct error *e)
{
    struct str wrong = mending_quoted(e->text, "'"), meant = mending_quoted(e->text, "did you mean '");
    if (!meant.n || !wrong.n || p->value.p[0] != '"')
        return false;
    for (size_t i = 1; i + wrong.n < p->value.n; i++)
        if (str_starts(str_sub(p->value, i, p->value.n), wrong))
            return mending_splice(m, (size_t)(p->value.p - m->text->p) + i, wrong.n, meant);
    return false;
}

/* Leaves a step nothing but its place in the graph. */
static bool mending_reduce_step(struct mending *m, long step)
{
    static const char *const kept[] = { "name", "depends_on", "join" };
    char path[FIELD_TEXT], member[FIELD_TEXT];
    mending_step_path(step, "", path);
    for (bool again = true; again;) {
        struct text_place p = mending_find(m, path);
        struct json_cursor c = { .text = p.value };
        struct str name, value;
        again = false;
        while (!again && p.is_whole && json_next(&c, &name, &value)) {
            bool keep = false;
            for (size_t i = 0; i < array_count(kept); i++)
                keep |= str_eq(name, str_from(kept[i]));
            snprintf(member, sizeof member, "steps[%ld]." STR_FMT, step, STR_ARG(str_utf8_cut(name, NAME_TEXT)));
            again = !keep && mending_drop_path(m, member);
        }
    }
    return mending_add_member(m, step, "target_type", "NOOP");
}

/* Something is missing at the path, or the value around it is wrong as a whole. */
static bool mending_mend_missing(struct mending *m, const struct text_place *around, const struct error *e)
{
    long step = mending_step_of(e->field);
    const char *member = mending_below_step(e->field);
    char name[NAME_TEXT], path[FIELD_TEXT];
    if (step < 0)
        return false;
    if (strcmp(member, "name") == 0) {
        mending_make_name(m, name);
        return mending_add_member(m, step, "name", name);
    }
    if (strchr(member, '.') && around->is_member)
        return mending_drop(m, around);
    mending_step_path(step, "target_type", path);
    return mending_find(m, path).is_whole ? mending_reduce_step(m, step)
                                          : mending_add_member(m, step, "target_type", "NOOP");
}

static bool mending_mend_element(struct mending *m, const struct text_place *p, const struct error *e)
{
    char name[NAME_TEXT], path[FIELD_TEXT];
    const char *bracket = strrchr(e->field, '[');
    if (mending_accept(m, p, e))
        return true;
    if (mending_is_depends(e->field)) {
        m->lost_edges = true;
        return mending_add_step(m, name) && mending_set_text(m, e->field, name);
    }
    snprintf(path, sizeof path, "%.*s", bracket ? (int)(bracket - e->field) : 0, e->field);
    return mending_step_of(path) >= 0 && mending_drop_path(m, path);
}

static bool mending_mend(struct mending *m, const struct error *e)
{
    struct text_place p = mending_find(m, e->field);
    char name[NAME_TEXT];
    if (!e->field[0])
        return false;
    if (!p.is_whole)
        return mending_mend_missing(m, &p, e);
    if (!p.is_member)
        return mending_mend_element(m, &p, e);
    if (mending_rename_key(m, &p, e) || mending_accept(m, &p, e))
        return true;
    if (strcmp(mending_below_step(e->field), "name") == 0) {
        buf_printf(&m->renamed, "\n" STR_FMT "\n", STR_ARG(str_sub(p.value, 1, p.value.n - 1)));
        mending_make_name(m, name);
        return mending_set_text(m, e->field, name);
    }
    m->lost_edges |= strncmp(mending_below_step(e->field), "depends_on", strlen("depends_on")) == 0;
    return strcmp(e->field, "steps") != 0 && mending_drop(m, &p);
}

/* ---- errors ---- */

/* Whether a path is this one, or leads into its value. */
static bool mending_is_below(struct str path, struct str above)
{
    return above.n && str_starts(path, above) && (path.n == above.n || strchr(".[", path.p[above.n]));
}

/* Whether it names a step whose name was wrong, and is another now. */
static bool mending_misses_renamed(const struct mending *m, const struct error *e)
{
    struct str name = mending_quoted(e->text, "no step is named '"), rest = buf_str(&m->renamed), line;
    while (name.n && str_cut(&rest, '\n', &line))
        if (str_eq(line, name))
            return true;
    return false;
}

/* Whether its name was a guess, and its value is of another kind: the guess was wrong, and nobody wrote that field. */
static bool mending_is_wrong_guess(const struct mending *m, const struct error *e)
{
    struct str rest = buf_str(&m->guessed), line;
    bool is_other_kind = strncmp(e->text, "must be a", strlen("must be a")) == 0 && strstr(e->text, ", not a");
    while (is_other_kind && str_cut(&rest, '\n', &line))
        if (str_eq(line, str_from(e->field)))
            return true;
    return false;
}

/* Whether the field is wrong only because of what else the step has. */
static bool mending_depends_on_others(const struct error *e)
{
    return strstr(e->text, "has a meaning only") || strstr(e->text, "has no effect without");
}

/* Whether an error is about a field beside one that was wrong, and names that: "has no effect without timeout". */
static bool mending_names_neighbour(const struct mending *m, const struct error *e)
{
    const char *own = strrchr(e->field, '.');
    for (size_t i = 0; own && i < m->errors->n; i++) {
        const char *other = m->errors->v[i].field, *its = strrchr(other, '.');
        if (its && own - e->field == its - other && strncmp(e->field, other, (size_t)(own - e->field)) == 0 &&
            strstr(e->text, its + 1))
            return true;
    }
    return false;
}

/* Whether the error may be there only because an earlier one was mended. */
static bool mending_follows(struct mending *m, const struct error *e)
{
    char step[FIELD_TEXT + 2];
    struct str rest = buf_str(&m->mended), line;
    bool is_whole = mending_find(m, e->field).is_whole, same_step = false, is_around = false;
    snprintf(step, sizeof step, "steps[%ld].", mending_step_of(e->field));
    while (str_cut(&rest, '\n', &line)) {
        same_step |= str_starts(line, str_from(step));
        is_around |= mending_is_below(line, str_from(e->field));
    }
    return is_around || mending_misses_renamed(m, e) || mending_names_neighbour(m, e) || mending_is_wrong_guess(m, e) ||
           (same_step && (!is_whole || mending_depends_on_others(e))) ||
           (m->lost_edges && strstr(e->text, "does not wait for"));
}

/* ---- the search ---- */

static void mending_note(struct mending *m, const struct error *e, size_t max)
{
    struct definition_errors *x = m->errors;
    struct text_place p = text_place_find(buf_str(m->text), str_from(e->field));
    x->has_more = x->n == max;
    if (x->has_more)
        return;
    x->lines[x->n] = text_place_line(buf_str(m->text), &p);
    x->v[x->n++] = *e;
}

/* Reads the text again. False: it has no error that can be mended. */
static bool mending_read(struct mending *m, struct error *e)
{
    cleanup_with(dag_freep) struct dag *d = NULL;
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, m->text->max);
    m->bytes += READ_COST * m->text->n;
    text_compact(buf_str(m->text), &text);
    *e = (struct error){ 0 };
    return definition_read(buf_str(&text), m->context, &d, e) == ERR_INVALID && e->field[0];
}

static void mending_search(struct mending *m, const struct error *first, size_t max)
{
    struct error e = *first, before = { 0 };
    int same = 0; /* how often the error came again */
    bool mended = true;
    for (int i = 0; mended; i++) {
        same = strcmp(e.field, before.field) == 0 && strcmp(e.text, before.text) == 0 ? same + 1 : 0;
        if (i == 0 || !mending_follows(m, &e))
            mending_note(m, &e, max);
        bool is_cut = strlen(e.field) + 1 == sizeof e.field; /* the path leads nowhere */
        mended = i < LOOKS_MAX && !m->errors->has_more && same < 2 && !is_cut &&
                 (same ? mending_reduce_step(m, mending_step_of(e.field)) : mending_mend(m, &e)) &&
                 m->bytes <= m->bytes_max;
        m->errors->has_more |= !mended && mending_step_of(e.field) >= 0;
        buf_printf(&m->mended, "\n%s\n", e.field);
        before = e;
        if (mended && !mending_read(m, &e))
            return;
    }
}

void definition_find_errors(struct buf *text, const struct task_context *c, const struct error *first, size_t max,
                            size_t bytes_max, struct definition_errors *ret)
{
    struct mending m = { .text = text, .context = c, .errors = ret, .bytes_max = bytes_max };
    ret->n = 0;
    ret->has_more = false;
    buf_init(&m.mended, NOTES_MAX);
    buf_init(&m.renamed, NOTES_MAX);
    buf_init(&m.guessed, NOTES_MAX);
    mending_search(&m, first, max);
    buf_release(&m.mended);
    buf_release(&m.renamed);
    buf_release(&m.guessed);
}

enum err definition_read_all(struct str text, const struct task_context *c, struct dag **ret,
                             struct definition_errors *errors)
{
    struct error e = { 0 };
    cleanup_with(buf_release) struct buf copy;
    buf_init(&copy, 2 * text.n + NOTES_MAX);
    enum err rc = definition_read(text, c, ret, &e);
    errors->n = 0;
    if (rc == ERR_INVALID && e.field[0]) {
        buf_add(&copy, text);
        definition_find_errors(&copy, c, &e, ANSWERED_ERRORS_MAX, ANSWERED_BYTES_MAX, errors);
    } else if (rc) {
        errors->v[errors->n++] = e;
    }
    return rc;
}
