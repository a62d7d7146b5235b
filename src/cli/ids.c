#include "cli/ids.h"

#include <assert.h>
#include <stdlib.h>

#include "base/sentence.h"
#include "cli/filter.h"
#include "cli/pages.h"
#include "cli/table.h"

enum { CANDIDATES = 10, PATH_MAX_BYTES = 4096, TEXT_MAX = 64 * 1024, NAME_WIDTH = 200 };

void ids_release(struct ids *ids)
{
    free(ids->v);
    *ids = (struct ids){ 0 };
}

static void ids_add(struct ids *ids, struct uuid id)
{
    if (ids->n == ids->cap) {
        ids->cap = max_of(ids->cap * 2, (size_t)16);
        ids->v = xrealloc(ids->v, ids->cap * sizeof *ids->v);
    }
    uuid_format(id, ids->v[ids->n++]);
}

enum err ids_check_some(const struct options *o, struct error *e)
{
    if (!o->word_count)
        return error_set(e, ERR_INVALID, "a task is missing: give its id or name; 'belfry list' prints them");
    for (size_t i = 0; i < o->word_count; i++)
        if (!o->words[i].n)
            return error_set(e, ERR_INVALID, "an argument is empty: give the id or name of a task");
    return ERR_OK;
}

enum err ids_check_one(const struct options *o, struct error *e)
{
    if (o->word_count > 1)
        return error_set(e, ERR_INVALID, "takes one task, not %zu", o->word_count);
    return ids_check_some(o, e);
}

/* ---- candidates ---- */

/* A list in which a word is looked up. */
struct ids_list {
    const char *path, *member;
    const char *what;    /* "task" */
    const char *command; /* that prints the list */
    const char *more;    /* filter that adds what the list leaves out; NULL: none */
    const char *by_id;   /* list that finds beginnings of ids */
};

static const struct ids_list *ids_list_of(const char *path)
{
    static const struct ids_list lists[] = {
        { "/v1/tasks", "tasks", "task", "list", "occurrences", "/v1/tasks" },
        { "/v1/dlq", "tasks", "failed task", "dlq list", "resolved", "/v1/dlq" },
        { "/v1/workflows", "workflows", "run", "workflow list", "occurrences", "/v1/tasks" },
    };
    size_t i = 0;
    while (i + 1 < array_count(lists) && strcmp(lists[i].path, path) != 0)
        i++;
    assert(strcmp(lists[i].path, path) == 0);
    return &lists[i];
}

/* What fits a word so far. */
struct candidates {
    const struct ids_list *list;
    struct buf ids;   /* each UUID_TEXT long */
    struct buf lines; /* one a line, for the error */
    size_t n;
    bool has_more, quiet;
};

static void candidates_init(struct candidates *c, const char *list)
{
    *c = (struct candidates){ .list = ids_list_of(list) };
    buf_init(&c->ids, TEXT_MAX);
    buf_init(&c->lines, TEXT_MAX);
}

static void candidates_release(struct candidates *c)
{
    buf_release(&c->ids);
    buf_release(&c->lines);
}

static bool candidates_on_task(void *context, const json_t *task, struct str text)
{
    (void)text;
    struct candidates *c = context;
    struct uuid id;
    struct str shown = json_text_at(task, "id"), ids = buf_str(&c->ids);
    if (!uuid_parse(shown, &id))
        return true;
    for (size_t i = 0; i < ids.n; i += UUID_TEXT)
        if (str_eq(str_sub(ids, i, i + UUID_TEXT), shown))
            return true; /* its name is the beginning of its id */
    buf_add(&c->ids, shown);
    buf_printf(&c->lines, "  " STR_FMT "  ", STR_ARG(shown));
    table_plain_text(json_text_at(task, "status"), NAME_WIDTH, &c->lines);
    buf_text(&c->lines, "  ");
    table_plain_text(json_text_at(task, "name"), NAME_WIDTH, &c->lines);
    buf_char(&c->lines, '\n');
    c->n++;
    return true;
}

/* Of tasks that were found by their ids, the runs of workflows. */
static bool candidates_is_run(void *context, const json_t *task)
{
    (void)context;
    return str_eq(json_text_at(task, "target_type"), S("WORKFLOW")) &&
           !str_eq(json_text_at(task, "type"), S("RECURRING"));
}

static enum exit_code candidates_find(struct client *client, const char *filter, struct str value, const char *more,
                                      struct candidates *c)
{
    cleanup_with(buf_release) struct buf path;
    bool by_id = strcmp(filter, "id") == 0;
    const struct ids_list *list = by_id ? ids_list_of(c->list->by_id) : c->list;
    buf_init(&path, PATH_MAX_BYTES);
    buf_text(&path, list->path);
    query_add(&path, filter, value);
    if (more)
        query_add(&path, more, S("true"));
    struct pages p = { .client = client,
                       .path = buf_cstr(&path),
                       .member = list->member,
                       .limit = CANDIDATES,
                       .quiet = c->quiet,
                       .wanted = list == c->list ? NULL : candidates_is_run,
                       .row = candidates_on_task,
                       .context = c };
    enum exit_code code = pages_walk(&p);
    c->has_more = c->has_more || (p.has_more && c->n >= CANDIDATES);
    return code;
}

/* Names and beginnings of ids are equally good: if both fit, the user decides. Occurrences have the name of their
 * recurring task, so only their ids count, and only if nothing else fits: they are many. */
static enum exit_code candidates_find_all(struct client *client, struct str word, struct candidates *c)
{
    struct uuid lowest, highest;
    bool is_beginning = uuid_parse_prefix(word, &lowest, &highest);
    enum exit_code code = EXIT_DONE;
    if (word.p[word.n - 1] != '*') /* the server would take it as a pattern */
        code = candidates_find(client, "name", word, NULL, c);
    if (code == EXIT_DONE && is_beginning)
        code = candidates_find(client, "id", word, NULL, c);
    if (code == EXIT_DONE && is_beginning && c->n == 0)
        code = candidates_find(client, "id", word, c->list->more, c);
    return code;
}

static enum exit_code candidates_refuse(struct cli *cli, struct str word, const struct candidates *c)
{
    struct error e;
    char shown[QUOTE_TEXT];
    quote_text(word, shown);
    if (c->n)
        error_set(&e, ERR_INVALID, "%s fits %s%zu %ss; give the id of one of them:", shown,
                  c->has_more ? "more than " : "", c->n, c->list->what);
    else
        error_set(&e, ERR_INVALID, "there is no %s whose id or name is %s; 'belfry %s%s' prints them", c->list->what,
                  shown, c->list->command, cli->where);
    cli_fail(cli, cli->command->name, &e, EXIT_REFUSED);
    fputs(buf_cstr(&c->lines), cli->err);
    return EXIT_REFUSED;
}

/* Names find no archived tasks: a retry of those is a decision of its own. False: there is none of that name. */
static bool candidates_refuse_archived(struct client *client, struct str word)
{
    cleanup_with(candidates_release) struct candidates c;
    struct error e;
    struct cli *cli = client_cli(client);
    char shown[QUOTE_TEXT];
    candidates_init(&c, "/v1/dlq");
    c.quiet = true;
    if (word.p[word.n - 1] == '*' || candidates_find(client, "name", word, c.list->more, &c) || c.n == 0)
        return false;
    quote_text(word, shown);
    error_set(&e, ERR_INVALID, "the failed task %s is archived; to act on it all the same, give its id:", shown);
    cli_fail(cli, cli->command->name, &e, EXIT_REFUSED);
    fputs(buf_cstr(&c.lines), cli->err);
    return true;
}

/* The key may act, but not read lists: it needs none if it is given what it acts on. */
static void candidates_need_id(struct cli *cli, const struct candidates *c)
{
    struct error e;
    error_set(&e, ERR_INVALID,
              "this key may not look %ss up: give the whole id, such as 019c3f2e-7a40-7000-8000-000000000001",
              c->list->what);
    (void)cli_fail(cli, cli->command->name, &e, EXIT_REFUSED);
}

enum exit_code ids_resolve_word(struct client *client, struct str word, const char *list, struct ids *found)
{
    cleanup_with(candidates_release) struct candidates c;
    struct uuid id;
    candidates_init(&c, list);
    if (uuid_parse(word, &id)) {
        ids_add(found, id);
        return EXIT_DONE;
    }
    enum exit_code code = candidates_find_all(client, word, &c);
    if (code == EXIT_REFUSED && client_was_forbidden(client))
        candidates_need_id(client_cli(client), &c);
    if (code)
        return code;
    if (c.n == 0 && strcmp(list, "/v1/dlq") == 0 && candidates_refuse_archived(client, word))
        return EXIT_REFUSED;
    if (c.n != 1 || !uuid_parse(buf_str(&c.ids), &id))
        return candidates_refuse(client_cli(client), word, &c);
    ids_add(found, id);
    return EXIT_DONE;
}

enum exit_code ids_find_word(struct client *client, struct str word, const char *list, struct ids *found)
{
    cleanup_with(candidates_release) struct candidates c;
    struct uuid id;
    candidates_init(&c, list);
    c.quiet = true;
    enum exit_code code = candidates_find_all(client, word, &c);
    if (code == EXIT_UNREACHABLE)
        return ids_resolve_word(client, word, list, found); /* which says so */
    if (code || c.n == 0)
        return EXIT_DONE;
    if (c.n > 1 || !uuid_parse(buf_str(&c.ids), &id))
        return candidates_refuse(client_cli(client), word, &c);
    ids_add(found, id);
    return EXIT_DONE;
}

enum exit_code ids_resolve(struct client *c, const struct options *o, const char *list, struct ids *ret)
{
    struct ids found = { 0 };
    enum exit_code code = EXIT_DONE;
    for (size_t i = 0; code == EXIT_DONE && i < o->word_count; i++)
        code = ids_resolve_word(c, o->words[i], list, &found);
    if (code)
        ids_release(&found);
    else
        *ret = found;
    return code;
}

/* ---- other objects ---- */

struct pick {
    const struct ids_source *from;
    struct str word;
    struct buf *id; /* of the first that fits */
    size_t n;
    bool is_exact;
};

static bool pick_on_item(void *context, const json_t *item, struct str text)
{
    (void)text;
    struct pick *p = context;
    struct str id = json_text_at(item, "id");
    bool is_exact = str_eq(id, p->word) || (p->from->name && str_eq(json_text_at(item, p->from->name), p->word));
    if (!is_exact && (p->is_exact || !str_starts(id, p->word)))
        return true;
    if (is_exact && !p->is_exact) {
        p->n = 0; /* what only began so no longer counts */
        buf_reset(p->id);
    }
    p->is_exact = is_exact;
    if (p->n++ == 0)
        buf_add(p->id, id);
    return true;
}

enum exit_code ids_pick(struct client *c, const struct ids_source *from, struct str word, struct buf *ret)
{
    struct uuid whole;
    struct error e;
    char shown[QUOTE_TEXT];
    struct cli *cli = client_cli(c);
    struct pick p = { .from = from, .word = word, .id = ret };
    if (uuid_parse(word, &whole)) {
        buf_add(ret, word);
        return EXIT_DONE;
    }
    struct pages pages = { .client = c,
                           .path = from->path,
                           .member = from->member,
                           .limit = INT64_MAX,
                           .quiet = from->optional,
                           .row = pick_on_item,
                           .context = &p };
    enum exit_code code = pages_walk(&pages);
    if (from->optional && (code == EXIT_REFUSED || p.n == 0))
        return EXIT_DONE;
    if (code || p.n == 1)
        return code;
    quote_text(word, shown);
    if (p.n)
        error_set(&e, ERR_INVALID, "%s fits %zu of them; 'belfry %s%s' prints them", shown, p.n, from->list,
                  cli->where);
    else
        error_set(&e, ERR_INVALID, "there is no such %s: %s; 'belfry %s%s' prints them%s%s", from->what, shown,
                  from->list, cli->where, from->elsewhere ? "; " : "", from->elsewhere ? from->elsewhere : "");
    return cli_fail(cli, cli->command->name, &e, EXIT_REFUSED);
}
