/* belfry workflow show - a run, as it is or until it has ended. */
#include <unistd.h>

#include "cli/command/workflow/workflow.h"
#include "cli/reconnect.h"
#include "cli/screen.h"
#include "cli/task_view.h"
#include "cli/time_text.h"
#include "cli/workflow/run_steps.h"

enum { COLUMNS = 7, REDRAW_MS = 500, PATH_SHOWN_MAX = 20, RUNS_SHOWN_MAX = 5, HOLDS_SHOWN_MAX = 3 };

static const struct named_fact facts[] = {
    { "Id", "id", FACT_TEXT },
    { "Name", "name", FACT_TEXT },
    { "Step of", "run", FACT_TEXT },
    { "Occurrence of", "parent_id", FACT_TEXT },
    { "Workflow", "workflow", FACT_TEXT },
    { "Version", "version", FACT_NUMBER },
    { "Status", "status", FACT_TEXT },
    { "Paused", "paused", FACT_YES },
    { "Paused by", "pause.by", FACT_TEXT },
    { "because", "pause.reason", FACT_TEXT },
    { "since", "pause.since", FACT_MOMENT },
    { "until", "pause.until", FACT_MOMENT },
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

static bool run_view_is_critical(const struct run_view *v, size_t at)
{
    for (size_t i = 0; i < v->path.n; i++)
        if (v->path.v[i] == at)
            return true;
    return false;
}

/* Why the step is in its state. at: its place in the graph, unless it is a compensation. */
static void run_view_write_note(const struct run_view *v, const struct run_step *s, size_t at, struct buf *out)
{
    bool told = run_step_note_write(s, v->now_ms, out);
    if (!told && !s->is_undo && !s->times.is_final && !s->times.started_ms)
        run_parents_write(&v->graph, &v->graph.v[at], out);
}

static void run_view_add_step(const struct run_view *v, const struct run_step *s, size_t at, struct table *t)
{
    char waited[TIME_TEXT], ran[TIME_TEXT], attempts[32];
    cleanup_with(buf_release) struct buf note;
    run_step_times_text(s, v->now_ms, waited, ran);
    snprintf(attempts, sizeof attempts, "%lld", (long long)s->attempts);
    buf_init(&note, WORKFLOW_OUT_MAX);
    run_view_write_note(v, s, at, &note);
    const char *name = table_text(t, s->name), *status = table_text(t, s->status);
    const char *mark = s->is_undo ? "undo" : run_view_is_critical(v, at) ? "*" : "";
    if (t->columns > COLUMNS)
        table_row(t, COLUMNS + 1, mark, name, status, waited, ran, attempts, table_text(t, s->id), buf_cstr(&note));
    else
        table_row(t, COLUMNS, mark, name, status, waited, ran, attempts, buf_cstr(&note));
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
    bool ids = option_get(v->w->o, "ids")->number;
    buf_init(&text, WORKFLOW_OUT_MAX);
    table_init(&t, COLUMNS + (ids ? 1 : 0));
    t.fit = cli_columns(v->w->cli);
    table_keep(&t, 1);
    if (ids) {
        table_keep(&t, COLUMNS - 1);
        table_row(&t, COLUMNS + 1, "", "STEP", "STATUS", "WAITED", "RAN", "ATTEMPTS", "ID", "NOTE");
    } else {
        table_row(&t, COLUMNS, "", "STEP", "STATUS", "WAITED", "RAN", "ATTEMPTS", "NOTE");
    }
    for (size_t i = 0; i < v->steps.n; i++) {
        const struct run_step *s = &v->steps.v[i];
        run_view_add_step(v, s, at, &t);
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
    char took[TIME_TEXT], waited[TIME_TEXT];
    size_t hidden = v->path.n > PATH_SHOWN_MAX ? v->path.n - PATH_SHOWN_MAX : 0;
    if (!v->path.n)
        return;
    buf_text(out, "\nCritical path (*): ");
    if (hidden)
        buf_printf(out, "… (%zu more) → ", hidden);
    for (size_t i = hidden; i < v->path.n; i++) {
        const struct critical_step *t = &v->times[v->path.v[i]];
        time_text_took(critical_ran_ms(t, v->now_ms), took);
        buf_text(out, i > hidden ? " → " : "");
        table_plain_text(v->graph.v[v->path.v[i]].name, SIZE_MAX, out);
        buf_printf(out, " %s", took);
    }
    time_text_took(v->path.ran_ms, took);
    time_text_took(v->path.waited_ms, waited);
    buf_printf(out, "\nOn it, steps ran for %s and waited for %s to start\n", took, waited);
}

/* What must happen before the step goes on: "the signal 'approved'". False: nothing that holds the run's end. */
static bool run_view_write_hold(const struct run_step *s, struct buf *out)
{
    static const struct {
        const char *gate, *before, *after;
    } rows[] = { { "signal", "the signal '", "'" },
                 { "queue_paused", "the queue '", "' is resumed" },
                 { "concurrency_key", "the key '", "' is free" } };
    if (str_eq(s->hold.gate, S("paused"))) {
        buf_text(out, "the run is resumed");
        return true;
    }
    for (size_t i = 0; i < array_count(rows); i++) {
        if (!str_eq(s->hold.gate, str_from(rows[i].gate)) || !s->hold.name.n)
            continue;
        buf_text(out, rows[i].before);
        table_plain_text(s->hold.name, SIZE_MAX, out);
        buf_text(out, rows[i].after);
        if (s->hold.run.n)
            buf_printf(out, " in run " STR_FMT, STR_ARG(s->hold.run));
        return true;
    }
    return false;
}

/* A run that people or other tasks hold ends when they let it go on: an estimate would be wrong. False: none does. */
static bool run_view_write_holds(const struct run_view *v, struct buf *out)
{
    cleanup_with(buf_release) struct buf all;
    cleanup_with(buf_release) struct buf one;
    char relative[TIME_TEXT];
    int64_t deadline_ms;
    size_t n = 0;
    buf_init(&all, WORKFLOW_OUT_MAX);
    buf_init(&one, WORKFLOW_OUT_MAX);
    if (json_is_true(json_at(v->run.doc.root, "paused"))) {
        buf_text(&all, "the run is resumed");
        n++;
    }
    for (size_t i = 0; i < v->steps.n && n < HOLDS_SHOWN_MAX; i++) {
        buf_reset(&one);
        if (!run_view_write_hold(&v->steps.v[i], &one) || strstr(buf_cstr(&all), buf_cstr(&one)))
            continue;
        buf_text(&all, n++ ? " and " : "");
        buf_add(&all, buf_str(&one));
    }
    if (n && json_time_at(v->run.doc.root, "deadline_at", &deadline_ms) && deadline_ms > v->now_ms) {
        time_text_relative(deadline_ms, v->now_ms, relative);
        buf_printf(&all, ", or at its deadline, %s", relative);
    }
    if (n)
        buf_printf(out, "Ends: not before %s\n", buf_cstr(&all));
    return n > 0;
}

/* False: the run does not wait for its next attempt. */
static bool run_view_write_attempt(struct run_view *v, struct buf *out)
{
    const json_t *run = v->run.doc.root;
    char relative[TIME_TEXT], utc[TIME_TEXT];
    int64_t due_ms;
    if (!json_time_at(run, "due_at", &due_ms))
        return false;
    time_text_relative(due_ms, v->now_ms, relative);
    time_text_utc(due_ms, utc);
    buf_printf(out, "It has failed, and attempt %lld comes %s, %s%s\n", (long long)json_i64_at(run, "attempts", 0) + 1,
               relative, utc, json_is_true(json_at(run, "paused")) ? "; its steps wait for the resume" : "");
    return true;
}

/* What starts later than the estimate says is known better: a next attempt, for example. */
static int64_t run_view_latest_due(const struct run_view *v)
{
    int64_t due_ms = v->steps.items_due_ms;
    for (size_t i = 0; i < v->steps.n; i++)
        due_ms = max_of(due_ms, v->steps.v[i].due_ms);
    return due_ms;
}

static void run_view_write_estimate(struct run_view *v, struct buf *out)
{
    struct critical_estimate x;
    struct error ignored;
    char relative[TIME_TEXT], utc[TIME_TEXT];
    if (v->is_final || !v->graph.n || json_text_at(v->run.doc.root, "stopped_by").n || run_view_write_attempt(v, out) ||
        run_view_write_holds(v, out))
        return;
    if (!v->earlier) {
        buf_text(out, "When it ends cannot be estimated: no earlier run of the same definition is COMPLETED\n");
        return;
    }
    if (critical_estimate(v->times, v->graph.n, v->now_ms, &v->steps.a, &x, &ignored))
        return;
    int64_t due_ms = run_view_latest_due(v);
    if (due_ms > max_of(x.end_ms, v->now_ms)) {
        time_text_relative(due_ms, v->now_ms, relative);
        time_text_utc(due_ms, utc);
        buf_printf(out, "Ends: not before %s, %s, when a step or an item of it starts\n", relative, utc);
        return;
    }
    char model[64] = "the last completed run";
    if (v->earlier > 1)
        snprintf(model, sizeof model, "the last %zu completed runs", v->earlier);
    if (x.end_ms <= v->now_ms) {
        buf_printf(out, "It should have ended by now, if it goes as %s\n", model);
        return;
    }
    time_text_relative(x.end_ms, v->now_ms, relative);
    time_text_utc(x.end_ms, utc);
    buf_printf(out, "Ends %s%s, %s, if it goes as %s\n", x.unknown ? "later than " : "", relative, utc, model);
}

/* "  approved by ann, key ID, 3m ago, …": two keys may have the same name. */
static void run_view_write_senders(const struct run_view *v, const json_t *senders, struct buf *out)
{
    const json_t *item;
    size_t i;
    json_array_foreach (senders, i, item) {
        char name[CELL_TEXT], key[CELL_TEXT], at[CELL_TEXT];
        struct str id = json_text_at(item, "key");
        bool rejects = str_eq(json_text_at(item, "decision"), S("REJECT"));
        moment_text(item, "at", v->now_ms, at);
        buf_printf(out, "  %s by %s", rejects ? "rejected" : "approved", table_cell(json_text_at(item, "name"), name));
        if (id.n && !str_eq(id, json_text_at(item, "name")))
            buf_printf(out, ", key %s", table_cell(id, key));
        buf_printf(out, ", %s\n", at);
    }
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
        char step[CELL_TEXT], signal[CELL_TEXT], since[CELL_TEXT], until[CELL_TEXT];
        int64_t timeout_ms;
        int64_t received = json_i64_at(item, "received", 0), approvals = json_i64_at(item, "approvals", 1);
        moment_text(item, "since", v->now_ms, since);
        table_cell(json_text_at(item, "signal"), signal);
        buf_printf(out, "Step %s awaits the signal %s, %lld of %lld received, since %s",
                   table_cell(json_text_at(item, "step"), step), signal, (long long)received, (long long)approvals,
                   since);
        moment_text(item, "timeout_at", v->now_ms, until);
        bool times_out = json_time_at(item, "timeout_at", &timeout_ms), is_over = times_out && timeout_ms <= v->now_ms;
        if (times_out)
            buf_printf(out, "; its timeout %s %s", is_over ? "was" : "is", until);
        buf_text(out, ": ");
        if (is_over && json_is_true(json_at(v->run.doc.root, "paused")))
            buf_text(out, "it takes no signals any more, and times out after the resume\n");
        else if (received < approvals && json_i64_at(item, "rejections", 0))
            buf_text(out, "it was rejected, and fails after the resume\n");
        else if (received >= approvals)
            buf_printf(out, "it is decided, and goes on after the resume\n");
        else
            buf_printf(out, "'belfry workflow signal %s %s%s'\n", v->id, signal, v->w->cli->where);
        run_view_write_senders(v, json_at(item, "senders"), out);
    }
}

/* A pause does not hold the deadline. */
static void run_view_write_pause(const struct run_view *v, struct buf *out)
{
    char relative[TIME_TEXT], utc[TIME_TEXT], resumed[UUID_TEXT + 1];
    int64_t deadline_ms;
    outermost_run_id(v->w->client, v->run.doc.root, resumed);
    buf_printf(out, "It is paused: 'belfry workflow resume %s%s' lets it go on", resumed, v->w->cli->where);
    if (json_time_at(v->run.doc.root, "deadline_at", &deadline_ms) && deadline_ms > v->now_ms) {
        time_text_relative(deadline_ms, v->now_ms, relative);
        time_text_utc(deadline_ms, utc);
        buf_printf(out, "; its deadline, %s, %s, stops it all the same", relative, utc);
    }
    buf_char(out, '\n');
}

/* Why the run does not go on, in the words of `belfry explain`. */
static void run_view_write_waiting(struct run_view *v, struct buf *out)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    char path[WORKFLOW_PATH];
    bool is_paused = json_is_true(json_at(v->run.doc.root, "paused"));
    snprintf(path, sizeof path, "/v1/tasks/%s/explain", v->id);
    struct client_request call = { .method = "GET", .path = path, .quiet = true };
    if (is_paused && !v->is_final)
        run_view_write_pause(v, out);
    if (v->is_final || is_paused || str_eq(json_text_at(v->run.doc.root, "status"), S("RUNNING")) ||
        client_call(v->w->client, &call, &a))
        return;
    size_t from = out->n;
    table_plain_text(json_text_at(a.doc.root, "explanation"), SIZE_MAX, out);
    if (out->n > from && out->p[from] >= 'a' && out->p[from] <= 'z')
        out->p[from] = (char)(out->p[from] - 'a' + 'A');
    buf_text(out, out->n > from ? "\n" : "");
}

/* Steps that run other workflows and did not complete: their reasons are in those runs. */
static void run_view_write_runs(const struct run_view *v, struct buf *out)
{
    size_t n = 0;
    for (size_t i = 0; i < v->steps.n && n < RUNS_SHOWN_MAX; i++) {
        const struct run_step *s = &v->steps.v[i];
        bool is_open = s->times.started_ms && !s->times.is_final;
        if (!s->is_run || s->is_undo || (!is_open && !str_eq(s->status, S("FAILED"))))
            continue;
        buf_text(out, "Step ");
        table_plain_text(s->name, SIZE_MAX, out);
        buf_printf(out, " is a run: 'belfry workflow show " STR_FMT "%s'\n", STR_ARG(s->id), v->w->cli->where);
        n++;
    }
}

static void run_view_write(struct run_view *v, struct buf *out)
{
    cleanup_with(buf_release) struct buf counts;
    struct str result = json_member_text(&v->run.doc, "result");
    buf_init(&counts, WORKFLOW_PATH);
    named_facts_print(v->w->cli, v->run.doc.root, facts, array_count(facts), out);
    run_counts_text(json_at(v->run.doc.root, "steps"), &counts);
    run_view_write_waiting(v, out);
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
    run_view_write_runs(v, out);
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
    char utc[TIME_TEXT];
    time_text_utc(v->now_ms, utc);
    for (size_t i = 0; i < v->steps.n; i++) {
        const struct run_step *s = &v->steps.v[i];
        bool is_same = before && i < before->steps.n && str_eq(before->steps.v[i].name, s->name) &&
                       before->steps.v[i].is_undo == s->is_undo && str_eq(before->steps.v[i].status, s->status);
        if (is_same)
            continue;
        buf_printf(out, "%s %s", utc, s->is_undo ? "undo of " : "");
        table_plain_text(s->name, SIZE_MAX, out);
        buf_char(out, ' ');
        table_plain_text(s->status, SIZE_MAX, out);
        buf_text(out, s->error.n ? ": " : "");
        table_plain_text(s->error, SIZE_MAX, out);
        buf_char(out, '\n');
    }
}

struct run_watch {
    struct run_view last;
    bool has_last;
    struct screen *screen; /* NULL: stdout is no terminal */
    struct reconnect lost;
    enum exit_code code;
};

/* The server is being restarted, perhaps. False: the output is closed. */
static bool run_watch_show_lost(struct run_watch *x)
{
    cleanup_with(buf_release) struct buf out;
    struct run_view *v = &x->last;
    buf_init(&out, WORKFLOW_OUT_MAX);
    if (!x->screen)
        return true;
    table_plain_text(str_from(client_why_unreachable(v->w->client)), SIZE_MAX, &out);
    buf_text(&out, "; trying again. The run as it was:\n\n");
    run_view_write(v, &out);
    return screen_draw(x->screen, &out);
}

/* Shows the run once more. False: the watch is over, by x->code. */
static bool run_watch_look(struct run_watch *x)
{
    cleanup_with(buf_release) struct buf out;
    struct run_view v = { .w = x->last.w, .id = x->last.id };
    buf_init(&out, WORKFLOW_OUT_MAX);
    x->code = run_view_load(&v, x->has_last ? &x->last : NULL);
    bool again = x->has_last && reconnect_again(&x->lost, x->code, !x->screen);
    if (x->code) {
        run_view_release(&v);
        return again && run_watch_show_lost(x);
    }
    if (x->screen)
        run_view_write(&v, &out);
    else
        run_view_write_changes(&v, x->has_last ? &x->last : NULL, &out);
    bool taken = x->screen ? screen_draw(x->screen, &out) : cli_print(v.w->cli, &out);
    run_view_release(&x->last);
    x->last = v;
    if (!x->has_last)
        reconnect_init(&x->lost, v.w->client);
    x->has_last = true;
    return taken && !v.is_final;
}

static bool run_watch_pause(struct run_watch *x)
{
    if (x->screen)
        return !screen_wait(x->screen, REDRAW_MS);
    usleep(REDRAW_MS * 1000);
    return true;
}

/* Follows a run until it is final, and prints it. EXIT_REFUSED if it is then not COMPLETED. */
static enum exit_code workflow_watch(struct verb_work *w, const char *id)
{
    struct run_watch x = { .last = { .w = w, .id = id } };
    cleanup_with(buf_release) struct buf out;
    struct screen screen;
    buf_init(&out, WORKFLOW_OUT_MAX);
    if (w->cli->out_is_terminal) {
        screen_open(&screen, w->cli);
        screen.ends_by_itself = true;
        x.screen = &screen;
    }
    while (run_watch_look(&x) && run_watch_pause(&x))
        ;
    if (x.screen)
        screen_close(&screen);
    if (x.code == EXIT_UNREACHABLE && x.has_last)
        (void)reconnect_fail(&x.lost);
    if (x.code == EXIT_DONE)
        run_view_write(&x.last, &out);
    cli_print(w->cli, &out);
    if (x.code == EXIT_DONE && x.last.is_final && !x.last.is_completed)
        x.code = EXIT_REFUSED;
    run_view_release(&x.last);
    return x.code;
}

enum exit_code workflow_show(struct verb_work *w)
{
    char id[UUID_TEXT + 1], path[WORKFLOW_PATH];
    struct error e;
    enum exit_code code = workflow_find_run(w, id);
    if (code)
        return code;
    if (w->o->word_count > 2 && option_get(w->o, "watch")->number) {
        (void)error_field(&e, "--watch", "follows a whole run: leave out the step");
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    }
    if (w->o->word_count > 2)
        return workflow_show_step(w, id, w->o->words[2]);
    snprintf(path, sizeof path, WORKFLOWS "/%s", id);
    if (w->json && !option_get(w->o, "watch")->number)
        return verb_call(w, &(struct client_request){ .method = "GET", .path = path, .about = id }, NULL, NULL);
    return option_get(w->o, "watch")->number ? workflow_watch(w, id) : workflow_show_once(w, id);
}
