/* belfry workflow step, and `belfry workflow show ID STEP`: one step of a run. */
#include "base/sentence.h"
#include "cli/command/show.h"
#include "cli/command/workflow/workflow.h"
#include "cli/filter.h"
#include "cli/pages.h"
#include "cli/table.h"
#include "cli/task_body.h"
#include "cli/workflow/run_steps.h"

enum { BODY_MAX = 1 << 20, ITEM_MAX = 1000000 };

/* ---- names ---- */

struct step_name {
    struct str step;
    int64_t item; /* -1: the step itself */
};

/* "mail", "mail/17" or, as `steps` prints it, "mail[17]". */
static enum err step_name_read(struct str word, struct step_name *ret, struct error *e)
{
    char shown[QUOTE_TEXT];
    size_t slash = str_find(word, '/', 0), bracket = str_find(word, '[', 0), at = min_of(slash, bracket);
    struct str item = str_sub(word, min_of(at + 1, word.n), word.n);
    *ret = (struct step_name){ .step = str_sub(word, 0, at), .item = -1 };
    quote_text(word, shown);
    if (at == bracket && item.n && item.p[item.n - 1] == ']')
        item.n--;
    bool is_item = at < word.n && str_to_i64(item, 0, ITEM_MAX, &ret->item);
    if (!verb_name_is_valid(ret->step) || (at < word.n && !is_item))
        return error_set(e, ERR_INVALID, "%s is no step: give its name, or for an item of a map NAME/INDEX", shown);
    return ERR_OK;
}

/* ---- show ---- */

/* What the list of steps says about one of them, and the task does not. */
struct step_facts {
    const struct step_name *name;
    char id[UUID_TEXT + 1], undo[UUID_TEXT + 1];
    bool is_run, by_hand;
    struct buf items, hold, by; /* by: the key that completed or skipped it, its name and its id */
};

static void step_facts_release(struct step_facts *f)
{
    buf_release(&f->items);
    buf_release(&f->hold);
    buf_release(&f->by);
}

/* "'ann' (ID)": two keys may have the same name. */
static void step_write_key(struct str name, struct str id, struct buf *out)
{
    if (!name.n)
        return;
    buf_char(out, '\'');
    table_plain_text(name, SIZE_MAX, out);
    buf_char(out, '\'');
    if (str_eq(name, id))
        return;
    buf_text(out, " (");
    table_plain_text(id, SIZE_MAX, out);
    buf_char(out, ')');
}

static bool step_on_row(void *context, const json_t *row, struct str text)
{
    struct step_facts *f = context;
    struct str id = json_text_at(row, "id"), kind = json_text_at(row, "kind");
    (void)text;
    if (json_i64_at(row, "item", -1) != f->name->item)
        return true;
    if (str_eq(kind, S("COMPENSATION"))) {
        snprintf(f->undo, sizeof f->undo, STR_FMT, STR_ARG(id));
        return true;
    }
    snprintf(f->id, sizeof f->id, STR_FMT, STR_ARG(id));
    f->is_run = str_eq(json_text_at(row, "target_type"), S("WORKFLOW"));
    f->by_hand = json_is_true(json_at(row, "by_hand"));
    run_counts_text(json_at(row, "items"), &f->items);
    table_plain_text(json_text_at(row, "waits_for.explanation"), SIZE_MAX, &f->hold);
    step_write_key(json_text_at(row, "settled_by_name"), json_text_at(row, "settled_by"), &f->by);
    return true;
}

static enum exit_code step_find(struct verb_work *w, const char *run, struct step_facts *f)
{
    cleanup_with(buf_release) struct buf path;
    struct error e;
    buf_init(&path, WORKFLOW_PATH);
    buf_printf(&path, WORKFLOWS "/%s/steps", run);
    query_add(&path, "step", f->name->step);
    struct pages p = { .client = w->client,
                       .path = buf_cstr(&path),
                       .member = "steps",
                       .limit = INT64_MAX,
                       .about = run,
                       .row = step_on_row,
                       .context = f };
    enum exit_code code = pages_walk(&p);
    if (code || f->id[0])
        return code;
    if (f->name->item >= 0)
        error_set(&e, ERR_INVALID,
                  "step '" STR_FMT "' has no item %lld; 'belfry workflow steps %s --step " STR_FMT "%s' prints them",
                  STR_ARG(f->name->step), (long long)f->name->item, run, STR_ARG(f->name->step), w->cli->where);
    else
        error_set(&e, ERR_INVALID, "step '" STR_FMT "' has not been created yet: the run has not reached it",
                  STR_ARG(f->name->step));
    return cli_fail(w->cli, "workflow", &e, EXIT_REFUSED);
}

static void step_write_facts(struct verb_work *w, const char *run, const struct step_facts *f, struct buf *out)
{
    const char *where = w->cli->where;
    if (f->by_hand && f->by.n)
        buf_printf(out, "The API key %s decided on it by hand\n", buf_cstr(&f->by));
    else if (f->by_hand)
        buf_text(out, "A user decided on it by hand\n");
    if (f->hold.n)
        buf_printf(out, "It does not go on: %s\n", buf_cstr(&f->hold));
    if (f->items.n) {
        buf_printf(out, "Items: %s. Its output is the list of their outputs:\n", buf_cstr(&f->items));
        buf_printf(out, "'belfry workflow show %s " STR_FMT "/0%s' prints the first item, /1 the second\n", run,
                   STR_ARG(f->name->step), where);
    }
    if (f->is_run)
        buf_printf(out, "It is a run: 'belfry workflow show %s%s'\n", f->id, where);
    if (f->undo[0])
        buf_printf(out, "Its compensation is %s: 'belfry show %s%s'\n", f->undo, f->undo, where);
}

enum exit_code workflow_show_step(struct verb_work *w, const char *run, struct str word)
{
    cleanup_with(buf_release) struct buf out;
    struct step_name name;
    cleanup_with(step_facts_release) struct step_facts f = { .name = &name };
    struct error e;
    char path[WORKFLOW_PATH], item[32] = "";
    buf_init(&out, WORKFLOW_OUT_MAX);
    buf_init(&f.items, WORKFLOW_PATH);
    buf_init(&f.hold, WORKFLOW_OUT_MAX);
    buf_init(&f.by, WORKFLOW_PATH);
    if (step_name_read(word, &name, &e))
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    if (name.item >= 0)
        snprintf(item, sizeof item, "?item=%lld", (long long)name.item);
    snprintf(path, sizeof path, WORKFLOWS "/%s/steps/" STR_FMT "%s", run, STR_ARG(name.step), item);
    enum exit_code code = step_find(w, run, &f);
    if (code == EXIT_DONE)
        code = show_task(w->cli, w->client, path, f.id, w->json, false, &out);
    if (code == EXIT_DONE && !w->json) {
        buf_char(&out, '\n');
        step_write_facts(w, run, &f, &out);
    }
    cli_print(w->cli, &out);
    return code;
}

/* ---- decisions by hand ---- */

static const struct step_action {
    const char *name;
    const char *option; /* that it takes; NULL: none */
} step_actions[] = { { "run-now", "force" }, { "skip", NULL }, { "force-complete", "output" } };

static const struct step_action *step_action_find(struct str word, struct error *e)
{
    char shown[QUOTE_TEXT];
    for (size_t i = 0; i < array_count(step_actions); i++)
        if (str_eq(word, str_from(step_actions[i].name)))
            return &step_actions[i];
    quote_text(word, shown);
    error_set(e, ERR_INVALID, "step cannot %s: use run-now, skip or force-complete, then the run and the step", shown);
    return NULL;
}

static enum err step_check_options(const struct options *o, const struct step_action *action, struct error *e)
{
    for (size_t i = 0; i < array_count(step_actions); i++) {
        const char *option = step_actions[i].option;
        char field[32];
        if (!option || &step_actions[i] == action || !option_given(o, option))
            continue;
        snprintf(field, sizeof field, "--%s", option);
        return error_field(e, field, "is for step %s, not for step %s", step_actions[i].name, action->name);
    }
    return ERR_OK;
}

/* STEP or STEP/INDEX */
static enum err step_read_name(const struct options *o, const struct step_action *action, struct step_name *ret,
                               struct error *e)
{
    if (o->word_count < 4)
        return error_set(e, ERR_INVALID, "step %s needs a run and a step: 'belfry workflow step %s ID STEP'",
                         action->name, action->name);
    return step_name_read(o->words[3], ret, e);
}

/* "load", or of an item "mail[17]". */
static void step_name_write(const json_t *step, struct buf *out)
{
    const json_t *item = json_at(step, "item");
    table_plain_text(json_text_at(step, "step"), SIZE_MAX, out);
    if (json_is_integer(item))
        buf_printf(out, "[%lld]", (long long)json_integer_value(item));
}

static void step_print_decision(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    char status[CELL_TEXT];
    bool undo = str_eq(json_text_at(doc->root, "kind"), S("COMPENSATION"));
    buf_text(out, undo ? "The compensation of step " : "Step ");
    step_name_write(doc->root, out);
    buf_printf(out, " is %s, by hand\n", table_cell(json_text_at(doc->root, "status"), status));
    struct str notice = json_text_at(doc->root, "notice");
    if (notice.n)
        buf_printf(out, "Note: " STR_FMT "\n", STR_ARG(notice));
    buf_printf(out, "'belfry workflow show --watch %s%s' follows the run\n", w->name, w->cli->where);
}

static enum err step_write_body(const struct options *o, const struct step_action *action, int64_t item,
                                struct buf *body, struct error *e)
{
    struct jw j;
    jw_init(&j, body);
    jw_object(&j);
    if (item >= 0)
        jw_kv_i64(&j, "item", item);
    if (action->option && strcmp(action->option, "force") == 0 && option_get(o, "force")->number)
        jw_kv_bool(&j, "force", true);
    if (action->option && strcmp(action->option, "output") == 0 && option_json_write(o, "output", &j, e))
        return e->code;
    jw_object_end(&j);
    return ERR_OK;
}

enum exit_code workflow_step(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    char id[UUID_TEXT + 1], path[WORKFLOW_PATH];
    struct step_name name;
    struct error e;
    const struct step_action *action = step_action_find(w->o->words[1], &e);
    buf_init(&body, 2 * BODY_MAX);
    if (!action || step_read_name(w->o, action, &name, &e) || step_check_options(w->o, action, &e) ||
        step_write_body(w->o, action, name.item, &body, &e))
        return cli_fail(w->cli, "workflow", &e, EXIT_USAGE);
    enum exit_code code = workflow_find_run_word(w, w->o->words[2], id);
    if (code)
        return code;
    snprintf(path, sizeof path, WORKFLOWS "/%s/steps/" STR_FMT "/%s", id, STR_ARG(name.step), action->name);
    w->name = id; /* what the answer is printed with */
    struct client_request call = { .method = "POST", .path = path, .body = buf_str(&body), .about = id };
    return verb_call(w, &call, step_print_decision, NULL);
}
