/* belfry workflow rm - removes the name of a definition, unless something would fail without it. Runs keep the version
 * that they were opened with. */
#include "cli/command/workflow/workflow.h"

#include "cli/filter.h"
#include "cli/pages.h"
#include "cli/table.h"
#include "cli/workflow/run_steps.h"

enum { USERS_SHOWN_MAX = 20, RUNS_COUNTED_MAX = 1000, NAMES_MAX = 1 << 20 };

/* What would fail without the definition. */
struct definition_users {
    struct verb_work *w;
    struct buf lines; /* one a line */
    struct buf names; /* of definitions, one a line */
    size_t n;
};

static void definition_users_init(struct definition_users *u, struct verb_work *w)
{
    *u = (struct definition_users){ .w = w };
    buf_init(&u->lines, WORKFLOW_OUT_MAX);
    buf_init(&u->names, NAMES_MAX);
}

static void definition_users_release(struct definition_users *u)
{
    buf_release(&u->lines);
    buf_release(&u->names);
}

/* ---- recurring tasks ---- */

static bool remove_on_recurring(void *context, const json_t *task, struct str text)
{
    struct definition_users *u = context;
    char id[CELL_TEXT];
    (void)text;
    bool uses = str_eq(json_text_at(task, "target_type"), S("WORKFLOW")) &&
                str_eq(json_text_at(task, "target_config.workflow"), str_from(u->w->name));
    if (!uses || run_status_is_final(json_text_at(task, "status")))
        return true;
    if (u->n++ >= USERS_SHOWN_MAX)
        return true;
    buf_printf(&u->lines, "  %s  ", table_cell(json_text_at(task, "id"), id));
    table_plain_text(json_text_at(task, "name"), SIZE_MAX, &u->lines);
    buf_char(&u->lines, '\n');
    return true;
}

/* A key that may not read tasks removes the name without that check. */
static enum exit_code remove_find_recurring(struct definition_users *u, bool force)
{
    struct pages p = { .client = u->w->client,
                       .path = "/v1/tasks?type=RECURRING",
                       .member = "tasks",
                       .limit = INT64_MAX,
                       .quiet = true,
                       .row = remove_on_recurring,
                       .context = u };
    enum exit_code code = pages_walk(&p);
    if (code == EXIT_DONE || (code == EXIT_REFUSED && (force || client_was_forbidden(u->w->client))))
        return EXIT_DONE;
    p.quiet = false; /* says why */
    return pages_walk(&p);
}

/* ---- other definitions ---- */

static bool remove_on_definition(void *context, const json_t *definition, struct str text)
{
    struct definition_users *u = context;
    struct str name = json_text_at(definition, "name");
    (void)text;
    if (!verb_name_is_valid(name) || str_eq(name, str_from(u->w->name)))
        return true;
    buf_add(&u->names, name);
    buf_char(&u->names, '\n');
    return true;
}

/* Adds the definition if a step of its latest version runs the workflow. */
static void remove_look_at(struct definition_users *u, struct str name)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    char path[WORKFLOW_PATH];
    const json_t *step;
    size_t i, found = 0;
    snprintf(path, sizeof path, DEFINITIONS "/" STR_FMT, STR_ARG(name));
    struct client_request call = { .method = "GET", .path = path, .quiet = true };
    if (client_call(u->w->client, &call, &a)) /* it was removed meanwhile */
        return;
    json_array_foreach (json_at(a.doc.root, "definition.steps"), i, step) {
        if (!str_eq(json_text_at(step, "target_type"), S("WORKFLOW")) ||
            !str_eq(json_text_at(step, "target_config.workflow"), str_from(u->w->name)))
            continue;
        if (found++ == 0 && u->n++ >= USERS_SHOWN_MAX)
            return;
        if (found == 1)
            buf_printf(&u->lines, "  " STR_FMT "  ", STR_ARG(name));
        buf_text(&u->lines, found == 1 ? "" : ", ");
        table_plain_text(json_text_at(step, "name"), SIZE_MAX, &u->lines);
    }
    buf_text(&u->lines, found ? "\n" : "");
}

static void remove_find_definitions(struct definition_users *u)
{
    struct str rest, name;
    struct pages p = { .client = u->w->client,
                       .path = DEFINITIONS,
                       .member = "definitions",
                       .limit = INT64_MAX,
                       .quiet = true, /* the key may not read definitions: the rest is checked */
                       .row = remove_on_definition,
                       .context = u };
    if (pages_walk(&p))
        return;
    rest = buf_str(&u->names);
    while (str_cut(&rest, '\n', &name))
        if (name.n)
            remove_look_at(u, name);
}

/* ---- runs ---- */

static bool remove_on_run(void *context, const json_t *run, struct str text)
{
    size_t *n = context;
    (void)run;
    (void)text;
    ++*n;
    return true;
}

/* How many runs of the definition are open; 0 if the key may not read them. */
static size_t remove_count_runs(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf path;
    size_t n = 0;
    buf_init(&path, WORKFLOW_PATH);
    buf_text(&path, WORKFLOWS);
    query_add(&path, "workflow", str_from(w->name));
    query_add(&path, "status", S("SCHEDULED,BLOCKED,PAUSED,RUNNING"));
    struct pages p = { .client = w->client,
                       .path = buf_cstr(&path),
                       .member = "workflows",
                       .limit = RUNS_COUNTED_MAX,
                       .quiet = true,
                       .row = remove_on_run,
                       .context = &n };
    return pages_walk(&p) ? 0 : n;
}

/* ---- rm ---- */

/* The next run of what uses it fails. */
static enum exit_code remove_tell(struct definition_users *u, bool force, const char *how, const char *what,
                                  const char *remedy)
{
    struct error e;
    if (!u->n)
        return EXIT_DONE;
    error_set(&e, ERR_CONFLICT, "%s is %s %zu %s%s, whose next run fails without it%s%s%s", u->w->name, how, u->n, what,
              u->n == 1 ? "" : "s", force ? ":" : "; ", force ? "" : remedy,
              force ? "" : ", or remove it with --force:");
    enum exit_code code = cli_fail(u->w->cli, "workflow", &e, force ? EXIT_DONE : EXIT_REFUSED);
    fputs(buf_cstr(&u->lines), u->w->cli->err);
    return code;
}

static enum exit_code remove_check(struct verb_work *w)
{
    bool force = option_get(w->o, "force")->number;
    cleanup_with(definition_users_release) struct definition_users tasks;
    cleanup_with(definition_users_release) struct definition_users steps;
    definition_users_init(&tasks, w);
    definition_users_init(&steps, w);
    enum exit_code code = remove_find_recurring(&tasks, force);
    if (code)
        return code;
    remove_find_definitions(&steps);
    code = remove_tell(&tasks, force, "used by", "recurring task", "cancel them first");
    enum exit_code other = remove_tell(&steps, force, "run by steps of", "definition", "change them first");
    return max_of(code, other);
}

static void remove_print(struct verb_work *w, size_t runs)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, WORKFLOW_PATH);
    if (runs && !w->json)
        buf_printf(&out, "%s%zu open run%s on with the version that %s started with\n",
                   runs == RUNS_COUNTED_MAX ? "At least " : "", runs, runs == 1 ? " goes" : "s go",
                   runs == 1 ? "it" : "they");
    cli_print(w->cli, &out);
}

enum exit_code workflow_remove(struct verb_work *w)
{
    char path[VERB_PATH];
    verb_path(w, DEFINITIONS, path);
    enum exit_code code = remove_check(w);
    if (code)
        return code;
    size_t runs = remove_count_runs(w);
    code =
        verb_call(w, &(struct client_request){ .method = "DELETE", .path = path, .about = w->name }, NULL, "removed");
    if (code == EXIT_DONE)
        remove_print(w, runs);
    return code;
}
