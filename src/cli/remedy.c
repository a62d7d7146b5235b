#include "cli/remedy.h"

static const struct {
    const char *request, *command;
} remedies[] = {
    { "use {\"force\": true} to not wait", "use --force to not wait" },
    { "run it now with force to not wait", "'belfry run --force' does not wait" },
    { "create a new task", "create a new one with 'belfry add'" },
    { "then cancel it with compensate", "then cancel it with --compensate" },
    { "create it with POST /v1/tasks, target_type WORKFLOW", "create it with 'belfry add --workflow NAME'" },
    { "use POST /v1/tasks/{id}/dependencies", "'belfry add --after' creates a task with others" },
    { "PATCH the task that is returned", "'belfry edit' the task that is returned" },
};

/* "use POST /v1/workflows/ID/cancel" or "…/ID/steps/STEP/run-now", which end the sentence. */
static bool remedy_write_of_run(struct str rest, struct buf *out)
{
    struct str before = S("use POST /v1/workflows/"), id, word, step = S(""), verb;
    if (!str_starts(rest, before))
        return false;
    rest = str_sub(rest, before.n, rest.n);
    if (!str_cut(&rest, '/', &id) || !str_cut(&rest, '/', &word))
        return false;
    bool by_step = str_eq(word, S("steps"));
    if (by_step && (!str_cut(&rest, '/', &step) || !rest.n))
        return false;
    verb = by_step ? rest : word;
    buf_printf(out, "use 'belfry workflow %s" STR_FMT " " STR_FMT "%s" STR_FMT "'", by_step ? "step " : "",
               STR_ARG(verb), STR_ARG(id), by_step ? " " : "", STR_ARG(step));
    return true;
}

void remedy_write(struct str sentence, struct buf *out)
{
    for (size_t at = 0; at < sentence.n;) {
        struct str rest = str_sub(sentence, at, sentence.n);
        size_t i = 0;
        if (remedy_write_of_run(rest, out))
            return;
        while (i < array_count(remedies) && !str_starts(rest, str_from(remedies[i].request)))
            i++;
        if (i < array_count(remedies)) {
            buf_text(out, remedies[i].command);
            at += strlen(remedies[i].request);
        } else {
            buf_char(out, rest.p[0]);
            at++;
        }
    }
}
