#pragma once
/* cli/command/job.h - starts a job of the server and follows it until it is over. */
#include "cli/client.h"

/* POSTs body to path, which answers with a job, and waits until it is over; if stderr is a terminal, prints the
 * progress there. Then prints a summary ("12 paused, 1 refused"; `done` is "paused"), or the job as JSON.
 * EXIT_REFUSED if a task failed or the job stopped early. */
enum exit_code job_start_and_follow(struct cli *cli, struct client *c, const char *path, struct str body,
                                    const char *done, bool json) must_use;
