#pragma once
/* cli/command/workflow/workflow.h - the verbs of `belfry workflow` that have files of their own. */
#include "cli/ids.h"
#include "cli/verbs.h"

enum { WORKFLOW_PATH = 1024, WORKFLOW_OUT_MAX = 64 << 20 };

#define WORKFLOWS   "/v1/workflows"
#define DEFINITIONS "/v1/workflow-definitions"

/* Finds the run that the second argument names by its id, the beginning of its id, or its name. */
enum exit_code workflow_find_run(struct verb_work *w, char ret_id[UUID_TEXT + 1]) must_use;
enum exit_code workflow_find_run_word(struct verb_work *w, struct str word, char ret_id[UUID_TEXT + 1]) must_use;

/* One step of a run, or one item of it: "load", "mail/17" or "mail[17]". */
enum exit_code workflow_show_step(struct verb_work *w, const char *run, struct str word) must_use;

enum exit_code workflow_show(struct verb_work *w);
enum exit_code workflow_step(struct verb_work *w);
enum exit_code workflow_graph(struct verb_work *w);
enum exit_code workflow_run(struct verb_work *w);
enum exit_code workflow_remove(struct verb_work *w);
enum exit_code workflow_list(struct verb_work *w);
enum exit_code workflow_definitions(struct verb_work *w);
enum exit_code workflow_steps(struct verb_work *w);
