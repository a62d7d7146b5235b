/* belfry workflow - definitions of workflows and their runs. */
#include "cli/command/workflow/workflow.h"

#include "base/duration.h"
#include "base/sentence.h"
#include "cli/command/commands.h"
#include "cli/pause_options.h"
#include "cli/table.h"
#include "cli/task_body.h"
#include "cli/task_view.h"
#include "cli/workflow/file.h"
#include "cli/workflow/run_steps.h"
#include "platform/file.h"

enum { BODY_MAX = 8 << 20, NUMBER_MAX = 1000000000, STATUS_ACCEPTED = 202 };

/* clang-format off */
static const struct option options[] = {
    { .flag = "input", .type = OPTION_TEXT, .value = "JSON", .only = "run|rerun",
      .help = "the input of the run, as JSON; @FILE reads it from a file, - from stdin" },
    { .flag = "version", .type = OPTION_INT, .value = "N", .min = 1, .max = NUMBER_MAX, .only = "run|graph",
      .help = "this version of the definition; default: the latest" },
    { .flag = "wait", .type = OPTION_FLAG, .only = "run", .help = "wait until the run has ended; exit code 1 if it is not COMPLETED" },
    { .flag = "deadline", .type = OPTION_DURATION, .value = "DURATION", .min = 1, .max = DURATION_MAX_MS, .only = "run",
      .help = "stop the run this long after its start; it is then FAILED" },
    { .flag = "at", .type = OPTION_TIME, .value = "TIME", .only = "run", .help = "start at this time: 2026-02-10T08:00:00Z" },
    { .flag = "in", .type = OPTION_DURATION, .value = "DURATION", .max = DURATION_MAX_MS, .only = "run", .help = "start after this delay: 90s, 15m, 1h30m" },
    { .flag = "name", .type = OPTION_TEXT, .value = "NAME", .only = "apply|run|rerun|list",
      .help = "name of the definition (apply; default: the name of FILE without its ending), of the run, or of the runs to list" },
    { .flag = "queue", .type = OPTION_TEXT, .value = "QUEUE", .only = "run", .help = "queue of the run and of steps that name none" },
    { .flag = "priority", .type = OPTION_INT, .value = "P", .min = 0, .max = 9, .only = "run", .help = "priority of the run and of steps that have none; default: 5" },
    { .flag = "concurrency-key", .type = OPTION_TEXT, .value = "KEY", .only = "run", .help = "runs with the same key run one after another" },
    { .flag = "dedupe-key", .type = OPTION_TEXT, .value = "KEY", .only = "run", .help = "do not create a second run with this key" },
    { .flag = "idempotency-key", .type = OPTION_TEXT, .value = "KEY", .only = "run", .help = "a repeated command with the same key has no second effect; default: a random one" },
    { .flag = "set", .type = OPTION_LIST, .value = "FIELD=JSON", .only = "run", .help = "any field of a task, such as 'metadata={\"team\": \"a\"}'" },
    { .flag = "quiet", .letter = 'q', .type = OPTION_FLAG, .only = "run|rerun", .help = "print only the id" },
    { .flag = "watch", .letter = 'w', .type = OPTION_FLAG, .only = "show", .help = "redraw until the run has ended; exit code 1 if it is not COMPLETED" },
    { .flag = "ids", .type = OPTION_FLAG, .only = "show|steps", .help = "print the ids of steps, which are task ids; that of a sub-workflow is the id of its run" },
    { .flag = "output", .type = OPTION_TEXT, .value = "JSON", .only = "step", .help = "with step force-complete: the output that the steps after it get, as JSON; @FILE reads it" },
    { .flag = "force", .type = OPTION_FLAG, .only = "step|rm", .help = "with step run-now: do not wait for the steps before it; with rm: although recurring tasks or other definitions use it" },
    { .flag = "dot", .type = OPTION_FLAG, .only = "graph", .help = "print the graph for Graphviz" },
    { .flag = "mermaid", .type = OPTION_FLAG, .only = "graph", .help = "print the graph for Mermaid" },
    { .flag = "payload", .type = OPTION_TEXT, .value = "JSON", .only = "signal", .help = "what the signal carries, as JSON; @FILE reads it" },
    { .flag = "reject", .type = OPTION_FLAG, .only = "signal", .help = "say no: the step that awaits the signal fails" },
    { .flag = "by", .type = OPTION_TEXT, .value = "NAME", .only = "signal", .help = "send it in this name; the key needs the scope workflows:signal-as" },
    PAUSE_OPTIONS(.only = "pause"),
    { .flag = "compensate", .type = OPTION_FLAG, .only = "cancel", .help = "undo completed steps that have a compensation" },
    { .flag = "step", .type = OPTION_LIST, .value = "STEP", .only = "retry|steps", .help = "only this step" },
    { .flag = "from", .type = OPTION_TEXT, .value = "STEP", .only = "rerun", .help = "run this step and all after it again; the results of the others are copied, unless they were compensated" },
    { .flag = "workflow", .type = OPTION_TEXT, .value = "NAME", .only = "list", .help = "only runs of this definition" },
    { .flag = "status", .type = OPTION_TEXT, .value = "STATUS", .only = "list|steps", .help = "only runs or steps of this status, such as FAILED" },
    { .flag = "limit", .letter = 'n', .type = OPTION_INT, .value = "N", .preset = "20", .min = 1, .max = 1000000, .only = "list|steps|definitions",
      .help = "print at most N" },
    { .flag = "all", .letter = 'a', .type = OPTION_FLAG, .only = "list|steps|definitions", .help = "print all of them" },
};
/* clang-format on */

static const char detail[] =
    "Definitions:\n"
    "  lint FILE           check a definition, without a server; names the line and the path of each error. What depends on\n"
    "                      the server is checked by apply: its workers, brokers and limits\n"
    "  apply FILE          store a definition under a name; a changed one becomes a new version\n"
    "  definitions         list stored definitions\n"
    "  rm NAME             remove a definition; its runs go on. If recurring tasks or steps of others use it, --force is needed\n"
    "  graph NAME|FILE|ID  draw the steps; of a run with their states\n"
    "Runs:\n"
    "  run NAME|FILE       start a run of a stored definition, or of one in a file\n"
    "  list                list runs, the newest first\n"
    "  show ID             print a run: its steps, the critical path, and when it will probably end\n"
    "  show ID STEP        print one step: its call, its output, its error and its attempts; of a map also STEP/INDEX\n"
    "  steps ID            list the steps of a run, with the items of maps\n"
    "  signal ID NAME      send a signal, such as an approval, to the step that awaits it\n"
    "  pause ID            start no more steps; running ones continue. With --until, it goes on by itself\n"
    "  resume ID           go on\n"
    "  cancel ID           stop the run; running steps are aborted\n"
    "  retry ID            run what has failed again; completed steps are kept\n"
    "  rerun ID            start a new run that begins --from a step\n"
    "Steps of a run:\n"
    "  step run-now ID STEP         start a step that waits for its time; with --force one that waits for others\n"
    "  step skip ID STEP            end a step that has not started as SKIPPED\n"
    "  step force-complete ID STEP  end a step as COMPLETED, with --output; if the run has failed, it goes on\n"
    "Of a map, STEP/INDEX is one item that waits: skipped, it does not count as failed, and its output is null.\n"
    "\n"
    "An argument is a FILE if it has a '/', ends in .json, .yaml or .yml, or is - (stdin). ID is the id of a run, the\n"
    "beginning of its id, or its name. YAML follows the core schema of YAML 1.2: no and on are texts.\n"
    "\n"
    "run --wait and show --watch go on for 5 minutes if the server cannot be reached, for example because it is restarted.\n"
    "If they are interrupted, the run goes on. Exit codes:\n"
    "  0  done; with --wait: the run is COMPLETED; with --watch: it is COMPLETED, or you have quit\n"
    "  1  refused; with --wait and --watch: the run has ended and is not COMPLETED\n"
    "  2  wrong arguments\n"
    "  3  the server cannot be reached\n"
    "\n"
    "A definition:\n"
    "  steps:\n"
    "    - name: extract\n"
    "      target_config: {url: 'https://example.com/extract', body: {day: {$ref: /input/day}}}\n"
    "    - name: load\n"
    "      depends_on: [extract]\n"
    "      target_config: {url: 'https://example.com/load', body: {$ref: /steps/extract/output}}\n"
    "  result: {$ref: /steps/load/output}\n"
    "\n"
    "Examples:\n"
    "  belfry workflow lint etl.yaml && belfry workflow apply etl.yaml\n"
    "  belfry workflow run etl --input '{\"day\": \"2026-02-10\"}' --wait\n"
    "  belfry workflow show --watch 019c3f2e\n"
    "  belfry workflow signal 019c3f2e approved --payload '{\"comment\": \"fine\"}'\n"
    "  belfry workflow show 019c3f2e load\n"
    "  belfry workflow step force-complete 019c3f2e load --output '{\"rows\": 17}'\n"
    "  belfry workflow rerun 019c3f2e --from load\n"
    "  belfry workflow graph etl.yaml --dot | dot -Tsvg > etl.svg\n";

/* ---- definitions ---- */

static enum exit_code workflow_lint(struct verb_work *w)
{
    cleanup_with(workflow_file_release) struct workflow_file f = { 0 };
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, 1024);
    enum exit_code code = workflow_file_open(w->cli, w->name, &f);
    if (code)
        return code;
    workflow_file_note_hidden(w->cli, &f);
    if (w->json)
        buf_printf(&out, "{\"valid\":true,\"steps\":%u,\"edges\":%u}\n", (unsigned)f.dag->n, (unsigned)f.dag->edges);
    else
        buf_printf(&out, "%s is valid: %u step%s, %u edge%s, %u layer%s\n", w->name, (unsigned)f.dag->n,
                   f.dag->n == 1 ? "" : "s", (unsigned)f.dag->edges, f.dag->edges == 1 ? "" : "s",
                   (unsigned)f.dag->layers, f.dag->layers == 1 ? "" : "s");
    cli_print(w->cli, &out);
    return EXIT_DONE;
}

static void workflow_print_applied(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    char name[CELL_TEXT];
    const json_t *changed = json_at(doc->root, "changed");
    const json_t *warning;
    size_t i;
    buf_printf(out, "%s version %lld%s\n", table_cell(json_text_at(doc->root, "name"), name),
               (long long)json_i64_at(doc->root, "version", 0), json_is_false(changed) ? ", unchanged" : "");
    json_array_foreach (json_at(doc->root, "warnings"), i, warning) {
        char field[CELL_TEXT], message[CELL_TEXT];
        fprintf(w->cli->err, "warning: %s: %s\n", table_cell(json_text_at(warning, "field"), field),
                table_cell(json_text_at(warning, "message"), message));
    }
}

static enum exit_code workflow_apply(struct verb_work *w)
{
    cleanup_with(workflow_file_release) struct workflow_file f = { 0 };
    cleanup_with(buf_release) struct buf body;
    struct error e;
    char path[WORKFLOW_PATH], shown[QUOTE_TEXT];
    struct str name = option_given(w->o, "name") ? option_get(w->o, "name")->text : workflow_file_stem(w->name);
    buf_init(&body, BODY_MAX);
    quote_text(name, shown);
    if (!verb_name_is_valid(name)) {
        error_set(&e, ERR_INVALID, "%s is not a valid name of a definition: give --name with letters, digits and . _ -",
                  shown);
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    }
    enum exit_code code = workflow_file_open(w->cli, w->name, &f);
    if (code)
        return code;
    workflow_file_compact(&f, &body);
    snprintf(path, sizeof path, DEFINITIONS "/" STR_FMT, STR_ARG(name));
    struct client_request call = { .method = "PUT", .path = path, .body = buf_str(&body), .about = w->name };
    return verb_call(w, &call, workflow_print_applied, NULL);
}

/* ---- actions on runs ---- */

enum exit_code workflow_find_run_word(struct verb_work *w, struct str word, char ret_id[UUID_TEXT + 1])
{
    cleanup_with(ids_release) struct ids ids = { 0 };
    struct error e;
    if (!word.n) {
        error_set(&e, ERR_INVALID, "an argument is empty: give the id or name of a run");
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    }
    enum exit_code code = ids_resolve_word(w->client, word, WORKFLOWS, &ids);
    if (code == EXIT_DONE)
        memcpy(ret_id, ids.v[0], UUID_TEXT + 1);
    return code;
}

enum exit_code workflow_find_run(struct verb_work *w, char ret_id[UUID_TEXT + 1])
{
    return workflow_find_run_word(w, str_from(w->name), ret_id);
}

/* Of a run that was cancelled and has not ended: what is left to do. */
static const char *workflow_left_text(const json_t *run)
{
    static const char *const open[] = { "steps.by_status.SCHEDULED", "steps.by_status.BLOCKED",
                                        "steps.by_status.PAUSED", "steps.by_status.RUNNING" };
    int64_t n = 0;
    for (size_t i = 0; i < array_count(open); i++)
        n += json_i64_at(run, open[i], 0);
    return n ? "Its steps are being stopped\n"
           : json_text_at(run, "compensation").n
               ? "Its steps have ended, and those that are COMPLETED are being undone\n"
               : "Its steps have ended\n";
}

/* "ID is RUNNING, paused", and the command that comes next. */
static void workflow_print_state(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    char id[CELL_TEXT], status[CELL_TEXT], until[CELL_TEXT];
    struct str verb = w->o->words[0], state = json_text_at(doc->root, "status");
    bool is_final = run_status_is_final(state), is_paused = json_is_true(json_at(doc->root, "paused")) && !is_final;
    bool is_cancel = str_eq(verb, S("cancel")), is_rerun = str_eq(verb, S("rerun"));
    table_cell(json_text_at(doc->root, "id"), id);
    if (is_rerun && option_get(w->o, "quiet")->number) {
        buf_printf(out, "%s\n", id);
        return;
    }
    moment_text(doc->root, "pause.until", clock_wall_ms(w->cli->clock), until);
    bool has_end = strcmp(until, "-") != 0;
    buf_printf(out, "%s%s is %s%s\n", is_rerun ? "The new run " : "Run ", id, table_cell(state, status),
               !is_paused ? ""
               : str_eq(state, S("PAUSED"))
                   ? has_end ? ": it does not start before its pause ends" : ": it does not start before it is resumed"
               : w->status == STATUS_ACCEPTED
                   ? ", paused: running steps finish; those that the queue or a worker has may still start"
                   : ", paused: running steps finish, and no step starts");
    if (is_cancel && !is_final)
        buf_text(out, workflow_left_text(doc->root));
    if (is_paused && has_end)
        buf_printf(out, "%s %s, or with 'belfry workflow resume %s%s'\n",
                   str_eq(state, S("PAUSED")) ? "That is" : "It goes on", until, id, w->cli->where);
    else if (is_paused)
        buf_printf(out, "'belfry workflow resume %s%s' lets it go on\n", id, w->cli->where);
    else if (is_final)
        buf_printf(out, "'belfry workflow show %s%s' prints its steps\n", id, w->cli->where);
    else
        buf_printf(out, "'belfry workflow show --watch %s%s' follows it\n", id, w->cli->where);
}

static enum exit_code workflow_act(struct verb_work *w, const char *action, const struct buf *body)
{
    char id[UUID_TEXT + 1], path[WORKFLOW_PATH];
    enum exit_code code = workflow_find_run(w, id);
    if (code)
        return code;
    snprintf(path, sizeof path, WORKFLOWS "/%s/%s", id, action);
    struct client_request call = { .method = "POST", .path = path, .about = id };
    if (body)
        call.body = buf_str(body);
    return verb_call(w, &call, workflow_print_state, NULL);
}

static enum exit_code workflow_pause(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    struct error e;
    struct jw j;
    buf_init(&body, BODY_MAX);
    jw_init(&j, &body);
    jw_object(&j);
    if (pause_options_write(w->o, &j, &e))
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    jw_object_end(&j);
    return workflow_act(w, "pause", &body);
}

static enum exit_code workflow_resume(struct verb_work *w)
{
    return workflow_act(w, "resume", NULL);
}

static enum exit_code workflow_cancel(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, 64);
    buf_printf(&body, "{\"compensate\": %s}", option_get(w->o, "compensate")->number ? "true" : "false");
    return workflow_act(w, "cancel", &body);
}

static enum exit_code workflow_retry(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    const struct option_value *steps = option_get(w->o, "step");
    struct jw j;
    buf_init(&body, BODY_MAX);
    jw_init(&j, &body);
    jw_object(&j);
    if (steps->list_count) {
        jw_key(&j, "steps");
        jw_array(&j);
        for (size_t i = 0; i < steps->list_count; i++)
            jw_str(&j, steps->list[i]);
        jw_array_end(&j);
    }
    jw_object_end(&j);
    return workflow_act(w, "retry", &body);
}

static enum exit_code workflow_rerun(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    struct error e;
    struct jw j;
    buf_init(&body, 2 * BODY_MAX);
    jw_init(&j, &body);
    if (!option_given(w->o, "from")) {
        (void)error_field(&e, "--from", "is missing: name the step with which the new run begins");
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    }
    jw_object(&j);
    jw_kv_str(&j, "from", option_get(w->o, "from")->text);
    if (option_given(w->o, "name"))
        jw_kv_str(&j, "name", option_get(w->o, "name")->text);
    if (option_json_write(w->o, "input", &j, &e))
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    jw_object_end(&j);
    return workflow_act(w, "rerun", &body);
}

static void workflow_print_signal(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    char step[CELL_TEXT], signal[CELL_TEXT];
    struct str name = json_text_at(doc->root, "step");
    int64_t rejections = json_i64_at(doc->root, "rejections", 0);
    bool rejects = option_get(w->o, "reject")->number;
    bool repeated = json_is_true(json_at(doc->root, "repeated"));
    buf_printf(out, "%s %s, %lld of %lld", table_cell(json_text_at(doc->root, "signal"), signal),
               repeated  ? "counted already"
               : rejects ? "rejected"
                         : "received",
               (long long)json_i64_at(doc->root, "received", 1), (long long)json_i64_at(doc->root, "approvals", 1));
    if (rejections)
        buf_printf(out, " approvals, %lld rejection%s", (long long)rejections, rejections > 1 ? "s" : "");
    if (name.n)
        buf_printf(out, ", for step %s%s", table_cell(name, step), rejections ? ", which fails" : "");
    buf_char(out, '\n');
}

static enum exit_code workflow_signal(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    struct error e;
    struct jw j;
    char id[UUID_TEXT + 1], path[WORKFLOW_PATH];
    struct str name = w->o->word_count > 2 ? w->o->words[2] : S("");
    buf_init(&body, 2 * BODY_MAX);
    jw_init(&j, &body);
    jw_object(&j);
    if (!verb_name_is_valid(name)) {
        error_set(&e, ERR_INVALID, "signal needs the name of a signal after the run: letters, digits and . _ : -");
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    }
    if (option_json_write(w->o, "payload", &j, &e))
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    jw_kv_cstr(&j, "decision", option_get(w->o, "reject")->number ? "REJECT" : "APPROVE");
    if (option_given(w->o, "by"))
        jw_kv_str(&j, "by", option_get(w->o, "by")->text);
    jw_object_end(&j);
    enum exit_code code = workflow_find_run(w, id);
    if (code)
        return code;
    snprintf(path, sizeof path, WORKFLOWS "/%s/signals/" STR_FMT, id, STR_ARG(name));
    struct client_request call = { .method = "POST", .path = path, .body = buf_str(&body), .about = id };
    return verb_call(w, &call, workflow_print_signal, NULL);
}

static enum exit_code command_workflow_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = {
        { "apply", "FILE", false, 0, workflow_apply, false },
        { "run", "NAME or FILE", false, 0, workflow_run, false },
        { "list", NULL, false, 0, workflow_list, false },
        { "show", "ID", false, 1, workflow_show, false },
        { "graph", "ID, NAME or FILE", false, 0, workflow_graph, true },
        { "signal", "ID", false, 1, workflow_signal, false },
        { "cancel", "ID", false, 0, workflow_cancel, false },
        { "pause", "ID", false, 0, workflow_pause, false },
        { "resume", "ID", false, 0, workflow_resume, false },
        { "retry", "ID", false, 0, workflow_retry, false },
        { "rerun", "ID", false, 0, workflow_rerun, false },
        { "lint", "FILE", false, 0, workflow_lint, true },
        { "definitions", NULL, false, 0, workflow_definitions, false },
        { "rm", "NAME", true, 0, workflow_remove, false },
        { "steps", "ID", false, 0, workflow_steps, false },
        { "step", "VERB", false, 2, workflow_step, false },
    };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_workflow = {
    .name = "workflow",
    .words = "apply|run|list|show|graph|signal|cancel|pause|resume|retry|rerun|lint|definitions|rm|steps|step …",
    .summary = "define workflows, run them, and follow their runs",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_workflow_run,
};
