#pragma once
/* cli/task_answer.h - commands that ask the server one thing about one task and print the answer. */
#include "base/json/json.h"
#include "cli/cli.h"

/* Asks GET /v1/tasks/{id}/`what` of the task that the command line names. With --json the answer is printed as it came,
 * else as `write` has it. */
enum exit_code task_answer_print(struct cli *cli, const struct options *o, const char *what,
                                 void (*write)(struct cli *cli, const json_t *answer, struct buf *out));
