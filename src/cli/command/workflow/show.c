/* belfry workflow show, graph - a run or a definition on a terminal. */
#include <unistd.h>

#include "cli/command/workflow/workflow.h"
#include "cli/screen.h"
#include "cli/task_view.h"
#include "cli/when.h"
#include "cli/workflow_file.h"
#include "cli/workflow_run.h"

enum { COLUMNS = 7, WIDTH_DEFAULT = 100, REDRAW_MS = 500, PATH_SHOWN_MAX = 20 };

static const struct named_fact facts[] = {
    { "Id", "id", FACT_TEXT },
    { "Name", "name", FACT_TEXT },
    { "Workflow", "workflow", FACT_TEXT },
    { "Version", "version", FACT_NUMBER },
    { "Status", "status", FACT_TEXT },
    { "Paused", "paused", FACT_YES },
    { "Failed step", "failed_step", FACT_TEXT },
    { "Error", "last_error", FACT_TEXT },
    { "Stopped by", "stopped_by", FACT_TEXT },
    { "Compensation", "compensation", FACT_TEXT },
    { "Queue", "queue", FACT_TEXT },
    { "Priority", "priority", FACT_NUMBER },
    { "Created", "created_at", FACT_MOMENT },
    { "Due", "run_at", FACT_MOMENT },
    { "Started", "started_at", FACT_MOMENT },
    { "Deadline", "deadline_at", FACT_MOMENT },
    { "Completed", "completed_at", FACT_MOMENT },
};

/* A run as it is shown. */
struct run_view {
    struct verb_work *w;
    const char *id;
    struct client_answer run;
    struct run_steps steps;
    struct graph graph;
    struct critical_step *times;
    struct critical_path path;
    size_t earlier; /* runs that the estimate comes from */
    int64_t now_ms;
    bool is_final, is_completed;
};

static void run_view_release(struct run_view *v)
{
    client_answer_release(&v->run);
    run_steps_release(&v->steps);
}

/* Usual times do not change while a run is watched: they are taken from the view before. */
static void run_view_keep_usual(struct run_view *v, const struct run_view *before)
{
    v->earlier = before->earlier;
    for (size_t i = 0; i < v->steps.n && i < before->steps.n; i++)
        if (str_eq(v->steps.v[i].name, before->steps.v[i].name))
            v->steps.v[i].times.usual_ms = before->steps.v[i].times.usual_ms;
}

static enum exit_code run_view_load(struct run_view *v, const struct run_view *before)
{
    char path[WORKFLOW_PATH];
    struct error e;
    snprintf(path, sizeof path, WORKFLOWS "/%s", v->id);
    struct client_request call = { .method = "GET", .path = path, .about = v->id };
    enum exit_code code = client_call(v->w->client, &call, &v->run);
    if (code == EXIT_DONE)
        code = run_steps_load(v->w->client, v->id, &v->steps);
    if (code)
        return code;
    struct str status = json_text_at(v->run.doc.root, "status");
    v->now_ms = clock_wall_ms(v->w->cli->clock);
    v->is_final = run_status_is_final(status);
    v->is_completed = str_eq(status, S("COMPLETED"));
    if (before && before->steps.n == v->steps.n)
        run_view_keep_usual(v, before);
    else if (!v->is_final)
        run_steps_learn(v->w->client, v->run.doc.root, &v->steps, &v->earlier);
    if (run_steps_graph(&v->steps, &v->graph, &v->times, &e) ||
        critical_path(v->times, v->graph.n, v->now_ms, &v->steps.a, &v->path, &e))
        return cli_fail(v->w->cli, "workflow", &e, EXIT_REFUSED);
    return EXIT_DONE;
}

/* ---- text ---- */

static void run_view_duration(int64_t ms, bool is_known, char out[WHEN_TEXT])
{
    if (is_known)
        when_took(max_of(ms, 0), out);
    else
        snprintf(out, WHEN_TEXT, "-");
}

static bool run_view_is_critical(const struct run_view *v, size_t at)
{
    for (size_t i = 0; i < v->path.n; i++)
        if (v->path.v[i] == at)
            return true;
    return false;
}

static int64_t run_view_ran_ms(const struct run_view *v, const struct critical_step *t)
{
    return (t->completed_ms ? t->completed_ms : v->now_ms) - t->started_ms;
}

static void run_view_add_step(const struct run_view *v, const struct run_step *s, bool is_critical, struct table *t)
{
    char waited[WHEN_TEXT], ran[WHEN_TEXT], attempts[32];
    const struct critical_step *c = &s->times;
    int64_t waited_ms = critical_waited_ms(c, v->now_ms);
    run_view_duration(waited_ms, c->released_ms && (c->started_ms || !c->is_final), waited);
    run_view_duration(run_view_ran_ms(v, c), c->started_ms != 0, ran);
    snprintf(attempts, sizeof attempts, "%lld", (long long)s->attempts);
    const char *name = table_text(t, s->name), *status = table_text(t, s->status);
    table_row(t, COLUMNS,
              is_critical  ? "*"
              : s->is_undo ? "undo"
                           : "",
              name, status, waited, ran, attempts, s->error.n ? table_text(t, s->error) : table_text(t, s->items));
}

/* Colours the status of each line of the table, of which the first is the header. */
static void run_view_colour(const struct run_view *v, struct str text, struct buf *out)
{
    struct str line;
    for (size_t i = 0; str_cut(&text, '\n', &line); i++) {
        bool is_step = i > 0 && i <= v->steps.n && v->w->cli->out_is_terminal;
        if (is_step)
            buf_text(out, workflow_status_look(v->steps.v[i - 1].status)->colour);
        buf_add(out, line);
        buf_text(out, is_step ? "\033[0m\n" : "\n");
    }
}

static void run_view_write_steps(const struct run_view *v, struct buf *out)
{
    cleanup_with(table_release) struct table t;
    cleanup_with(buf_release) struct buf text;
    size_t at = 0;
    buf_init(&text, WORKFLOW_OUT_MAX);
    table_init(&t, COLUMNS);
    t.fit = cli_columns(v->w->cli);
    table_keep(&t, 1);
    table_row(&t, COLUMNS, "", "STEP", "STATUS", "WAITED", "RAN", "ATTEMPTS", "ERROR");
    for (size_t i = 0; i < v->steps.n; i++) {
        const struct run_step *s = &v->steps.v[i];
        run_view_add_step(v, s, !s->is_undo && run_view_is_critical(v, at), &t);
        at += !s->is_undo;
    }
    if (!v->steps.n)
        return;
    table_print(&t, &text);
    buf_char(out, '\n');
    run_view_colour(v, buf_str(&text), out);
}

static void run_view_write_path(const struct run_view *v, struct buf *out)
{
    char took[WHEN_TEXT], waited[WHEN_TEXT];
    size_t hidden = v->path.n > PATH_SHOWN_MAX ? v->path.n - PATH_SHOWN_MAX : 0;
    if (!v->path.n)
        return;
    buf_text(out, "\nCritical path (*): ");
    if (hidden)
        buf_printf(out, "… (%zu more) → ", hidden);
    for (size_t i = hidden; i < v->path.n; i++) {
        const struct critical_step *t = &v->times[v->path.v[i]];
        when_took(max_of(run_view_ran_ms(v, t), 0), took);
        buf_text(out, i > hidden ? " → " : "");
        table_plain_text(v->graph.v[v->path.v[i]].name, SIZE_MAX, out);
        buf_printf(out, " %s", took);
    }
    when_took(v->path.ran_ms, took);
    when_took(v->path.waited_ms, waited);
    buf_printf(out, "\nOn it, steps ran for %s and waited for %s to start\n", took, waited);
}

static void run_view_write_estimate(struct run_view *v, struct buf *out)
{
    struct critical_estimate x;
    struct error ignored;
    char relative[WHEN_TEXT], utc[WHEN_TEXT];
    if (v->is_final || !v->earlier || critical_estimate(v->times, v->graph.n, v->now_ms, &v->steps.a, &x, &ignored))
        return;
    when_relative(x.end_ms, v->now_ms, relative);
    when_utc(x.end_ms, utc);
    buf_printf(out, "Ends %s%s, %s, if it goes as the last %zu completed run%s\n", x.unknown ? "later than " : "",
               relative, utc, v->earlier, v->earlier == 1 ? "" : "s");
}

static void run_view_write_awaiting(struct run_view *v, struct buf *out)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    char path[WORKFLOW_PATH];
    const json_t *item;
    size_t i;
    snprintf(path, sizeof path, WORKFLOWS "/%s/status", v->id);
    struct client_request call = { .method = "GET", .path = path, .quiet = true };
    if (v->is_final || client_call(v->w->client, &call, &a))
        return;
    json_array_foreach (json_at(a.doc.root, "awaiting"), i, item) {
        char step[CELL_TEXT], signal[CELL_TEXT], since[CELL_TEXT];
        moment_text(item, "since", v->now_ms, since);
        table_cell(json_text_at(item, "signal"), signal);
        buf_printf(out,
                   "Step %s awaits the signal %s, %lld of %lld received, since %s: 'belfry workflow signal %s %s%s'\n",
                   table_cell(json_text_at(item, "step"), step), signal, (long long)json_i64_at(item, "received", 0),
                   (long long)json_i64_at(item, "approvals", 1), since, v->id, signal, v->w->cli->where);
    }
}

static void run_view_write(struct run_view *v, struct buf *out)
{
    cleanup_with(buf_release) struct buf counts;
    struct str result = json_member_text(&v->run.doc, "result");
    buf_init(&counts, WORKFLOW_PATH);
    named_facts_print(v->w->cli, v->run.doc.root, facts, array_count(facts), out);
    run_counts_text(json_at(v->run.doc.root, "steps"), &counts);
    if (counts.n)
        buf_printf(out, "Steps: %s\n", buf_cstr(&counts));
    if (v->is_final && result.n && !str_eq(result, S("null"))) {
        buf_text(out, "Result: ");
        table_plain_text(result, SIZE_MAX, out);
        buf_char(out, '\n');
    }
    run_view_write_steps(v, out);
    run_view_write_path(v, out);
    run_view_write_estimate(v, out);
    run_view_write_awaiting(v, out);
}

/* ---- show ---- */

static enum exit_code workflow_show_once(struct verb_work *w, const char *id)
{
    cleanup_with(buf_release) struct buf out;
    cleanup_with(run_view_release) struct run_view v = { .w = w, .id = id };
    buf_init(&out, WORKFLOW_OUT_MAX);
    enum exit_code code = run_view_load(&v, NULL);
    if (code)
        return code;
    run_view_write(&v, &out);
    cli_print(w->cli, &out);
    return EXIT_DONE;
}

/* Not on a terminal: a line for each change of a step. */
static void run_view_write_changes(const struct run_view *v, const struct run_view *before, struct buf *out)
{
    char utc[WHEN_TEXT];
    when_utc(v->now_ms, utc);
    for (size_t i = 0; i < v->steps.n; i++) {
        const struct run_step *s = &v->steps.v[i];
        bool is_same = before && i < before->steps.n && str_eq(before->steps.v[i].name, s->name) &&
                       str_eq(before->steps.v[i].status, s->status);
        if (is_same)
            continue;
        buf_printf(out, "%s ", utc);
        table_plain_text(s->name, SIZE_MAX, out);
        buf_char(out, ' ');
        table_plain_text(s->status, SIZE_MAX, out);
        buf_text(out, s->error.n ? ": " : "");
        table_plain_text(s->error, SIZE_MAX, out);
        buf_char(out, '\n');
    }
}

/* Shows the run once more. False: the watch is over, by *ret_code. */
static bool workflow_watch_step(struct run_view *last, bool *has_last, struct screen *screen, enum exit_code *ret_code)
{
    cleanup_with(buf_release) struct buf out;
    struct run_view v = { .w = last->w, .id = last->id };
    buf_init(&out, WORKFLOW_OUT_MAX);
    *ret_code = run_view_load(&v, *has_last ? last : NULL);
    if (*ret_code) {
        run_view_release(&v);
        return false;
    }
    if (screen)
        run_view_write(&v, &out);
    else
        run_view_write_changes(&v, *has_last ? last : NULL, &out);
    bool taken = screen ? screen_draw(screen, &out) : cli_print(v.w->cli, &out);
    run_view_release(last);
    *last = v;
    *has_last = true;
    return taken && !v.is_final;
}

enum exit_code workflow_watch(struct verb_work *w, const char *id)
{
    cleanup_with(run_view_release) struct run_view last = { .w = w, .id = id };
    cleanup_with(buf_release) struct buf out;
    struct screen screen;
    bool is_terminal = w->cli->out_is_terminal, has_last = false, quit = false;
    enum exit_code code = EXIT_DONE;
    buf_init(&out, WORKFLOW_OUT_MAX);
    if (is_terminal) {
        screen_open(&screen, w->cli);
        screen.ends_by_itself = true;
    }
    while (!quit && workflow_watch_step(&last, &has_last, is_terminal ? &screen : NULL, &code)) {
        if (is_terminal)
            quit = screen_wait(&screen, REDRAW_MS);
        else
            usleep(REDRAW_MS * 1000);
    }
    if (is_terminal)
        screen_close(&screen);
    if (code)
        return code;
    run_view_write(&last, &out);
    cli_print(w->cli, &out);
    return last.is_final && !last.is_completed ? EXIT_REFUSED : EXIT_DONE;
}

enum exit_code workflow_show(struct verb_work *w)
{
    char id[UUID_TEXT + 1], path[WORKFLOW_PATH];
    enum exit_code code = workflow_find_run(w, id);
    if (code)
        return code;
    snprintf(path, sizeof path, WORKFLOWS "/%s", id);
    if (w->json && !option_get(w->o, "watch")->number)
        return verb_call(w, &(struct client_request){ .method = "GET", .path = path, .about = id }, NULL, NULL);
    return option_get(w->o, "watch")->number ? workflow_watch(w, id) : workflow_show_once(w, id);
}

/* ---- graph ---- */

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

static enum exit_code workflow_graph_run(struct verb_work *w)
{
    char id[UUID_TEXT + 1];
    struct run_steps s;
    struct graph g;
    struct critical_step *times;
    struct error e;
    enum exit_code code = workflow_find_run(w, id);
    if (code == EXIT_DONE)
        code = run_steps_load(w->client, id, &s);
    if (code)
        return code;
    code = run_steps_graph(&s, &g, &times, &e) ? cli_fail(w->cli, "workflow", &e, EXIT_REFUSED)
                                               : workflow_graph_print(w, &g, &s.a);
    run_steps_release(&s);
    return code;
}

enum exit_code workflow_graph(struct verb_work *w)
{
    cleanup_with(client_freep) struct client *client = NULL;
    struct error e;
    struct uuid id;
    bool found = false;
    if (option_get(w->o, "dot")->number && option_get(w->o, "mermaid")->number) {
        (void)error_field(&e, "--dot", "and --mermaid exclude each other; give only one of them");
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    }
    if (workflow_file_is_named(str_from(w->name)))
        return workflow_graph_file(w); /* no server needed */
    enum exit_code code = client_open(w->cli, w->o, &client);
    w->client = client;
    if (code == EXIT_DONE && !uuid_parse(str_from(w->name), &id) && verb_name_is_valid(str_from(w->name)))
        code = workflow_graph_definition(w, &found);
    return code || found ? code : workflow_graph_run(w);
}
