/* belfry workflow run, list, definitions, steps. */
#include "cli/command/workflow/workflow.h"

#include <unistd.h>

#include "base/sentence.h"
#include "cli/filter.h"
#include "cli/reconnect.h"
#include "cli/rows.h"
#include "cli/task_body.h"
#include "cli/task_view.h"
#include "cli/time_text.h"
#include "cli/workflow/file.h"
#include "cli/workflow/run_steps.h"

enum { BODY_MAX = 2 * TASK_BODY_MAX, RUN_COLUMNS = 7, DEFINITION_COLUMNS = 3, STEP_COLUMNS = 7 };
enum { WAIT_SECONDS = 30, AGAIN_MS = 500 };

/* ---- run ---- */

/* "definition": {…} of a file, or "workflow" and "version". */
static enum exit_code run_write_definition(struct verb_work *w, struct jw *j)
{
    cleanup_with(workflow_file_release) struct workflow_file f = { 0 };
    cleanup_with(buf_release) struct buf text;
    struct error e;
    char shown[QUOTE_TEXT];
    bool is_file = workflow_file_is_named(str_from(w->name)), has_version = option_given(w->o, "version");
    quote_text(str_from(w->name), shown);
    buf_init(&text, BODY_MAX);
    if (is_file && has_version) {
        (void)error_field(&e, "--version", "is of a stored definition, not of a file");
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    }
    if (!is_file && !verb_name_is_valid(str_from(w->name))) {
        error_set(&e, ERR_INVALID,
                  "%s is neither the name of a definition nor a file: files have a '/', or end in .json, "
                  ".yaml or .yml",
                  shown);
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    }
    if (!is_file) {
        jw_kv_cstr(j, "workflow", w->name);
        if (has_version)
            jw_kv_i64(j, "version", option_get(w->o, "version")->number);
        return EXIT_DONE;
    }
    enum exit_code code = workflow_file_open(w->cli, w->name, &f);
    if (code)
        return code;
    workflow_file_compact(&f, &text);
    jw_key(j, "definition");
    jw_raw(j, buf_str(&text));
    return EXIT_DONE;
}

static enum exit_code run_write_body(struct verb_work *w, struct buf *body)
{
    cleanup_with(buf_release) struct buf given;
    struct error e;
    struct jw j;
    buf_init(&given, TASK_BODY_MAX);
    jw_init(&j, body);
    jw_object(&j);
    enum exit_code code = run_write_definition(w, &j);
    if (code)
        return code;
    if (option_json_write(w->o, "input", &j, &e) || task_fields_write(w->o, &given, &e))
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    if (option_given(w->o, "deadline"))
        jw_kv_seconds(&j, "deadline_seconds", option_get(w->o, "deadline")->number);
    task_members_copy(buf_str(&given), &j);
    jw_object_end(&j);
    return task_sets_apply(w->o, NULL, body, &e) ? cli_fail(w->cli, "workflow", &e, EXIT_USAGE) : EXIT_DONE;
}

/* What became of the run that has the dedupe key. */
static const char *run_dedupe_text(struct str body)
{
    struct error ignored;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct str action = json_parse(body, &doc, &ignored) ? S("") : json_text_at(doc.root, "dedupe_action");
    if (str_eq(action, S("REPLACE")))
        return "no other was started; its definition and input were replaced, and it was moved to the new time";
    return str_eq(action, S("RESCHEDULE")) ? "no other was started; it was moved to the new time"
                                           : "no other was started";
}

static void run_print(struct verb_work *w, struct str body, const struct client_answer *a)
{
    cleanup_with(buf_release) struct buf out;
    char id[CELL_TEXT], status[CELL_TEXT];
    const json_t *run = a->doc.root;
    buf_init(&out, WORKFLOW_OUT_MAX);
    table_cell(json_text_at(run, "id"), id);
    if (w->json)
        client_json_line(&out, buf_str(&a->body));
    else
        buf_printf(&out, "%s\n", id);
    if (!w->json && !option_get(w->o, "quiet")->number && json_is_true(json_at(run, "deduplicated"))) {
        buf_printf(&out, "Run %s exists already (dedupe key '", id);
        table_plain_text(option_get(w->o, "dedupe-key")->text, SIZE_MAX, &out); /* empty: given by --set */
        buf_printf(&out, "'): %s\n", run_dedupe_text(body));
    }
    if (!w->json && !option_get(w->o, "quiet")->number && !option_get(w->o, "wait")->number)
        buf_printf(&out, "It is %s; 'belfry workflow show --watch %s%s' follows it\n",
                   table_cell(json_text_at(run, "status"), status), id, w->cli->where);
    cli_print(w->cli, &out);
}

/* The server answers when the run has ended, or after some seconds. It may be restarted meanwhile. */
static enum exit_code run_wait(struct verb_work *w, struct client_answer *a)
{
    char path[WORKFLOW_PATH];
    snprintf(path, sizeof path, WORKFLOWS "/" STR_FMT "?wait_seconds=%d",
             STR_ARG(str_utf8_cut(json_text_at(a->doc.root, "id"), UUID_TEXT)), WAIT_SECONDS);
    struct reconnect lost;
    reconnect_init(&lost, w->client);
    bool is_older = json_is_true(json_at(a->doc.root, "deduplicated")); /* its result is not in the answer */
    while (is_older || !run_status_is_final(json_text_at(a->doc.root, "status"))) {
        struct client_answer next = { 0 };
        enum exit_code code = client_call(w->client, &(struct client_request){ .method = "GET", .path = path }, &next);
        if (reconnect_again(&lost, code, true)) {
            usleep(AGAIN_MS * 1000);
            continue;
        }
        if (code)
            return code == EXIT_UNREACHABLE ? reconnect_fail(&lost) : code;
        client_answer_release(a);
        *a = next;
        is_older = false;
    }
    return EXIT_DONE;
}

static enum exit_code run_print_end(struct verb_work *w, const struct client_answer *a)
{
    cleanup_with(buf_release) struct buf out;
    char status[CELL_TEXT], id[CELL_TEXT];
    struct str error = json_text_at(a->doc.root, "last_error"), result = json_member_text(&a->doc, "result");
    bool completed = str_eq(json_text_at(a->doc.root, "status"), S("COMPLETED"));
    buf_init(&out, WORKFLOW_OUT_MAX);
    if (w->json) {
        client_json_line(&out, buf_str(&a->body));
    } else if (!option_get(w->o, "quiet")->number) {
        buf_printf(&out, "It is %s", table_cell(json_text_at(a->doc.root, "status"), status));
        buf_text(&out, error.n ? ": " : "");
        table_plain_text(error, SIZE_MAX, &out);
        buf_char(&out, '\n');
        if (result.n && !str_eq(result, S("null")))
            client_json_line(&out, result);
        if (!completed)
            buf_printf(&out, "'belfry workflow show %s%s' prints its steps\n",
                       table_cell(json_text_at(a->doc.root, "id"), id), w->cli->where);
    }
    cli_print(w->cli, &out);
    return completed ? EXIT_DONE : EXIT_REFUSED;
}

/* A key that may start runs and not read them would start one, and then fail. What else is wrong is told by the start
 * itself. */
static enum exit_code run_may_wait(struct verb_work *w)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    struct client_request call = { .method = "GET", .path = WORKFLOWS "?limit=1", .quiet = true };
    struct error e;
    if (client_call(w->client, &call, &a) != EXIT_REFUSED || !client_was_forbidden(w->client))
        return EXIT_DONE;
    (void)error_field(&e, "--wait", "needs a key with the scope 'workflows:read'; nothing was started");
    return cli_fail(w->cli, "workflow", &e, EXIT_REFUSED);
}

enum exit_code workflow_run(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    bool waits = option_get(w->o, "wait")->number;
    buf_init(&body, BODY_MAX);
    enum exit_code code = run_write_body(w, &body);
    struct client_request call = {
        .method = "POST", .path = WORKFLOWS, .body = buf_str(&body), .idempotency_key = task_idempotency_key(w->o)
    };
    if (code == EXIT_DONE && waits)
        code = run_may_wait(w);
    if (code == EXIT_DONE)
        code = client_call(w->client, &call, &a);
    if (code == EXIT_DONE && !(waits && w->json))
        run_print(w, buf_str(&body), &a);
    if (code || !waits)
        return code;
    code = run_wait(w, &a);
    return code ? code : run_print_end(w, &a);
}

/* ---- lists ---- */

static void run_error_write(const json_t *run, struct buf *out)
{
    struct str step = json_text_at(run, "failed_step"), error = json_text_at(run, "last_error");
    table_plain_text(step, SIZE_MAX, out);
    buf_text(out, step.n && error.n ? ": " : "");
    table_plain_text(error, SIZE_MAX, out);
}

/* "etl v3"; "-" if the definition has no name. */
static void run_workflow_write(const json_t *run, struct buf *out)
{
    struct str workflow = json_text_at(run, "workflow");
    int64_t version = json_i64_at(run, "version", 0);
    table_plain_text(workflow.n ? workflow : S("-"), SIZE_MAX, out);
    if (workflow.n && version)
        buf_printf(out, " v%lld", (long long)version);
}

static void run_header(struct table *t)
{
    table_row(t, RUN_COLUMNS, "ID", "NAME", "WORKFLOW", "STATUS", "STARTED", "TOOK", "ERROR");
}

/* When the run started, or will start, and how long it took, or has taken so far. */
static void run_times_text(const json_t *run, int64_t now_ms, char when[CELL_TEXT], char took[TIME_TEXT])
{
    int64_t from_ms = 0, to_ms = 0, due_ms = 0;
    char span[TIME_TEXT];
    bool started = json_time_at(run, "started_at", &from_ms), ended = json_time_at(run, "completed_at", &to_ms);
    bool is_ahead = !started && !ended && json_time_at(run, "run_at", &due_ms) && due_ms > now_ms;
    moment_text(run, is_ahead ? "run_at" : "started_at", now_ms, when);
    snprintf(took, TIME_TEXT, "-");
    time_text_took(max_of((ended ? to_ms : now_ms) - from_ms, 0), span);
    if (started)
        snprintf(took, TIME_TEXT, "%.40s%s", span, ended ? "" : " so far");
}

static void run_add_row(struct rows *r, const json_t *run)
{
    char when[CELL_TEXT], took[TIME_TEXT];
    struct table *t = &r->table;
    bool paused = json_is_true(json_at(run, "paused"));
    run_times_text(run, clock_wall_ms(r->cli->clock), when, took);
    table_row(t, RUN_COLUMNS, table_text(t, json_text_at(run, "id")), table_text(t, json_text_at(run, "name")),
              task_cell(t, run_workflow_write, run), paused ? "PAUSED" : table_text(t, json_text_at(run, "status")),
              when, took, task_cell(t, run_error_write, run));
}

enum exit_code workflow_list(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf path;
    static const char *const filters[] = { "status", "name", "workflow" };
    struct rows r = { .header = run_header, .add = run_add_row, .keep = { 1, RUN_COLUMNS } };
    buf_init(&path, WORKFLOW_PATH);
    buf_text(&path, WORKFLOWS);
    for (size_t i = 0; i < array_count(filters); i++)
        if (option_given(w->o, filters[i]))
            query_add(&path, filters[i], option_get(w->o, filters[i])->text);
    struct pages p = {
        .client = w->client, .path = buf_cstr(&path), .member = "workflows", .limit = pages_limit(w->o)
    };
    return rows_print(w->cli, w->o, &p, &r, RUN_COLUMNS, "there are no such runs");
}

static void definition_header(struct table *t)
{
    table_row(t, DEFINITION_COLUMNS, "NAME", "VERSION", "CREATED");
}

static void definition_add_row(struct rows *r, const json_t *definition)
{
    char when[CELL_TEXT], version[32];
    moment_text(definition, "created_at", clock_wall_ms(r->cli->clock), when);
    number_text(definition, "version", version);
    table_row(&r->table, DEFINITION_COLUMNS, table_text(&r->table, json_text_at(definition, "name")), version, when);
}

enum exit_code workflow_definitions(struct verb_work *w)
{
    struct pages p = { .client = w->client, .path = DEFINITIONS, .member = "definitions", .limit = pages_limit(w->o) };
    struct rows r = { .header = definition_header, .add = definition_add_row, .keep = { 1 } };
    return rows_print(w->cli, w->o, &p, &r, DEFINITION_COLUMNS, "there are no definitions");
}

/* With --ids there is one column more. */
static bool step_has_id(const struct table *t)
{
    return t->columns > STEP_COLUMNS;
}

static void step_header(struct table *t)
{
    if (step_has_id(t))
        table_row(t, STEP_COLUMNS + 1, "STEP", "KIND", "STATUS", "WAITED", "RAN", "ATTEMPTS", "ID", "NOTE");
    else
        table_row(t, STEP_COLUMNS, "STEP", "KIND", "STATUS", "WAITED", "RAN", "ATTEMPTS", "NOTE");
}

struct step_rows {
    struct rows rows;
    struct client *client;
    const char *run;
    struct run_steps steps; /* all of the run; read when the first row needs them */
    struct graph graph;
    bool is_read;
};

static void step_rows_read(struct step_rows *x)
{
    struct critical_step *ignored;
    struct error e;
    if (!x->is_read && run_steps_load(x->client, x->run, &x->steps) == EXIT_DONE &&
        run_steps_graph(&x->steps, &x->graph, &ignored, &e))
        x->graph = (struct graph){ 0 };
    x->is_read = true;
}

/* Why it is in its state; of a step that has not been released, the steps that it waits for. */
static void step_note_write(struct step_rows *x, const struct run_step *s, int64_t now_ms, struct buf *out)
{
    if (run_step_note_write(s, now_ms, out) || s->is_undo || s->times.is_final || s->times.started_ms)
        return;
    step_rows_read(x);
    for (uint32_t i = 0; i < x->graph.n; i++)
        if (str_eq(x->graph.v[i].name, s->name))
            run_parents_write(&x->graph, &x->graph.v[i], out);
}

static void step_add_row(struct rows *r, const json_t *step)
{
    char waited[TIME_TEXT], ran[TIME_TEXT], attempts[32];
    cleanup_with(arena_release) struct arena a;
    cleanup_with(buf_release) struct buf note;
    int64_t now_ms = clock_wall_ms(r->cli->clock);
    struct table *t = &r->table;
    struct run_step s;
    arena_init(&a, RUN_MEMORY_MAX);
    buf_init(&note, WORKFLOW_OUT_MAX);
    if (!run_step_read(&a, step, &s))
        return; /* one step cannot be that large */
    run_step_times_text(&s, now_ms, waited, ran);
    step_note_write(container_of(r, struct step_rows, rows), &s, now_ms, &note);
    snprintf(attempts, sizeof attempts, "%lld", (long long)s.attempts);
    const char *name = table_text(t, s.name), *kind = table_text(t, json_text_at(step, "kind"));
    const char *status = table_text(t, s.status);
    if (step_has_id(t))
        table_row(t, STEP_COLUMNS + 1, name, kind, status, waited, ran, attempts, table_text(t, s.id), buf_cstr(&note));
    else
        table_row(t, STEP_COLUMNS, name, kind, status, waited, ran, attempts, buf_cstr(&note));
}

enum exit_code workflow_steps(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf path;
    char id[UUID_TEXT + 1];
    struct error e;
    const struct option_value *step = option_get(w->o, "step");
    buf_init(&path, WORKFLOW_PATH);
    if (step->list_count > 1) {
        (void)error_field(&e, "--step", "may be given once with steps");
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    }
    enum exit_code code = workflow_find_run(w, id);
    if (code)
        return code;
    buf_printf(&path, WORKFLOWS "/%s/steps", id);
    if (option_given(w->o, "status"))
        query_add(&path, "status", option_get(w->o, "status")->text);
    if (step->list_count)
        query_add(&path, "step", step->list[0]);
    struct pages p = {
        .client = w->client, .path = buf_cstr(&path), .member = "steps", .limit = pages_limit(w->o), .about = id
    };
    size_t columns = STEP_COLUMNS + (option_get(w->o, "ids")->number ? 1 : 0);
    struct step_rows x = { .rows = { .header = step_header, .add = step_add_row, .keep = { 1, columns, columns - 1 } },
                           .client = w->client,
                           .run = id };
    bool filtered = option_given(w->o, "status") || step->list_count;
    code = rows_print(w->cli, w->o, &p, &x.rows, columns,
                      filtered ? "no step matches" : "the run has not started: it has no steps yet");
    if (x.steps.v)
        run_steps_release(&x.steps);
    return code;
}
