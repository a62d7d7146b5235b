#pragma once
/* cli/command/show.h - one task in words, for the commands that show one. */
#include "cli/client.h"

/* From list ("/v1/tasks", "/v1/dlq"); with what each attempt got as its answer if asked for. */
enum exit_code show_task(struct cli *cli, struct client *client, const char *list, const char *id, bool json,
                         bool outputs, struct buf *out) must_use;
