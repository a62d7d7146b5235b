#pragma once
/* cli/command/show.h - prints one task, for `belfry show` and `belfry dlq show`. */
#include "cli/client.h"

/* Reads the task from list ("/v1/tasks", "/v1/dlq"). outputs: also prints the error and output of each attempt. */
enum exit_code show_task(struct cli *cli, struct client *client, const char *list, const char *id, bool json,
                         bool outputs, struct buf *out) must_use;
