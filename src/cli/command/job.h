#pragma once
/* cli/command/job.h - long work that the server does: asked for, then followed until it is over. */
#include "cli/client.h"

/* POSTs body to path, which answers with a job, and waits for its end; how far it is goes to stderr if a person looks on. Prints what was
 * done ("12 paused, 1 refused", done being the word), or the job as JSON. EXIT_REFUSED if some failed or it stopped early. */
enum exit_code job_start_and_follow(struct cli *cli, struct client *c, const char *path, struct str body,
                                    const char *done, bool json) must_use;
