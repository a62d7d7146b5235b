/* belfry workflow graph - draws a run, a stored definition or a file. */
#include "cli/command/workflow/workflow.h"
#include "cli/workflow/file.h"
#include "cli/workflow/run_steps.h"

enum { WIDTH_DEFAULT = 100 };

static enum exit_code workflow_graph_print(struct verb_work *w, const struct graph *g, struct arena *a)
{
    cleanup_with(buf_release) struct buf out;
    struct error e;
    size_t columns = cli_columns(w->cli);
    buf_init(&out, WORKFLOW_OUT_MAX);
    if (option_get(w->o, "dot")->number)
        workflow_graph_dot(g, &out);
    else if (option_get(w->o, "mermaid")->number)
        workflow_graph_mermaid(g, &out);
    else if (workflow_graph_text(g, columns ? columns : WIDTH_DEFAULT, w->cli->out_is_terminal, a, &out, &e))
        return cli_fail(w->cli, "workflow", &e, EXIT_REFUSED);
    cli_print(w->cli, &out);
    return EXIT_DONE;
}

static enum exit_code workflow_graph_dag(struct verb_work *w, const struct dag *d)
{
    cleanup_with(arena_release) struct arena a;
    struct graph g;
    struct error e;
    arena_init(&a, GRAPH_MEMORY_MAX);
    if (workflow_graph_of(d, &a, &g, &e))
        return cli_fail(w->cli, "workflow", &e, EXIT_REFUSED);
    return workflow_graph_print(w, &g, &a);
}

static enum exit_code workflow_graph_file(struct verb_work *w)
{
    cleanup_with(workflow_file_release) struct workflow_file f = { 0 };
    struct error e;
    if (option_given(w->o, "version")) {
        (void)error_field(&e, "--version", "is of a stored definition, not of a file");
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    }
    enum exit_code code = workflow_file_open(w->cli, w->name, &f);
    return code ? code : workflow_graph_dag(w, f.dag);
}

/* The graph of a stored definition; *ret_found false: there is none of that name. */
static enum exit_code workflow_graph_definition(struct verb_work *w, bool *ret_found)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(dag_freep) struct dag *d = NULL;
    char path[WORKFLOW_PATH];
    struct error e;
    bool has_version = option_given(w->o, "version");
    snprintf(path, sizeof path, DEFINITIONS "/%s", w->name);
    if (has_version)
        snprintf(path + strlen(path), sizeof path - strlen(path), "?version=%lld",
                 (long long)option_get(w->o, "version")->number);
    struct client_request call = { .method = "GET", .path = path, .about = w->name, .may_be_missing = !has_version };
    enum exit_code code = client_call(w->client, &call, &a);
    *ret_found = code || a.doc.root;
    if (code || !a.doc.root)
        return code;
    if (dag_read(json_member_text(&a.doc, "definition"), &d, &e))
        return cli_fail(w->cli, "workflow", &e, EXIT_REFUSED);
    return workflow_graph_dag(w, d);
}

static enum exit_code workflow_graph_run(struct verb_work *w, const char *id)
{
    struct run_steps s;
    struct graph g;
    struct critical_step *times;
    struct error e = { 0 };
    enum exit_code code = run_steps_load(w->client, id, &s);
    if (code)
        return code;
    if (!s.n)
        error_set(&e, ERR_CONFLICT,
                  "the run has not started: it has no steps yet; the name of its definition draws that");
    code = e.code || run_steps_graph(&s, &g, &times, &e) ? cli_fail(w->cli, "workflow", &e, EXIT_REFUSED)
                                                         : workflow_graph_print(w, &g, &s.a);
    run_steps_release(&s);
    return code;
}

enum exit_code workflow_graph(struct verb_work *w)
{
    cleanup_with(client_freep) struct client *client = NULL;
    struct error e;
    struct uuid uuid;
    char id[UUID_TEXT + 1];
    bool found = false;
    if (option_get(w->o, "dot")->number && option_get(w->o, "mermaid")->number) {
        (void)error_field(&e, "--dot", "and --mermaid exclude each other; give only one of them");
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    }
    if (workflow_file_is_named(str_from(w->name)))
        return workflow_graph_file(w); /* no server needed */
    enum exit_code code = client_open(w->cli, w->o, &client);
    w->client = client;
    if (code == EXIT_DONE && !uuid_parse(str_from(w->name), &uuid) && verb_name_is_valid(str_from(w->name)))
        code = workflow_graph_definition(w, &found);
    if (code || found)
        return code;
    code = workflow_find_run(w, id);
    if (code == EXIT_DONE)
        return workflow_graph_run(w, id);
    if (code == EXIT_REFUSED)
        fprintf(w->cli->err, "Nor is it the name of a definition: 'belfry workflow definitions%s' lists these\n",
                w->cli->where);
    return code;
}
