#pragma once
/* cli/command/show.h - prints one task, for `belfry show` and `belfry dlq show`. */
#include "cli/client.h"

/* Reads the task from path ("/v1/tasks/ID"). about: what messages name. outputs: also prints the error and output of each
 * attempt. */
enum exit_code show_task(struct cli *cli, struct client *client, const char *path, const char *about, bool json,
                         bool outputs, struct buf *out) must_use;
