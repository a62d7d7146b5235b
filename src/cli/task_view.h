#pragma once
/* cli/task_view.h - text for tasks and executions, made from the JSON of the API. */
#include "base/uuid.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/table.h"
#include "cli/time_text.h"

/* The texts are appended in a form that is safe for a terminal, and whole.
 * "0 8 * * MON-FRI Europe/Berlin", "every 5m", "once". */
void schedule_text(const json_t *task, struct buf *out);

/* "POST https://example.com/x", "NOOP". */
void target_text(const json_t *task, struct buf *out);

/* "its previous run", "a slot of key 'customer-42'"; "" if it does not wait. */
void waiting_text(const json_t *task, struct buf *out);

/* "a,b" for an array of strings; "" if there is none. */
void joined_text(const json_t *object, const char *path, struct buf *out);

/* One of the first three as a cell of the table's next row. */
const char *task_cell(struct table *t, void (*write)(const json_t *task, struct buf *out), const json_t *task);
enum { TASK_TEXT_MAX = 64 << 20 }; /* of such a text; the server's limits are far lower */

/* "in 5m, 2026-02-10 08:00:00Z"; "-" if there is no such time. */
void moment_text(const json_t *object, const char *path, int64_t now_ms, char out[CELL_TEXT]);

/* "2026-02-10 08:00:00Z, or 'belfry resume ID'": what ends the pause of a task. A step is resumed with its run: asks the
 * server about it. */
void task_pause_end_text(const struct cli *cli, struct client *client, const json_t *task, struct buf *out);

/* "Fires in 5m: Tue 2026-02-10 09:00:00 CET (2026-02-10 08:00:00Z)", and for a cron expression a line before it that
 * says what it means. If the task does not fire at its next time (PAUSED, BLOCKED, RUNNING, final), says that
 * instead. */
void next_fire_lines(struct cli *cli, struct client *client, const json_t *task, struct buf *out);

/* The run that a pause or a resume of `run`, as the API shows it, has to name: itself, or the outermost run that it is
 * a step of. True: it is another one. */
bool outermost_run_id(struct client *client, const json_t *run, char ret_id[UUID_TEXT + 1]);

/* Of a run that is paused: what that means, and the command that lets it go on. */
void paused_run_line(const struct cli *cli, struct client *client, const json_t *task, struct buf *out);

/* A task of a paused queue does not fire, whatever its own time is. Asks the server. Adds nothing if the queue is not
 * paused, if its pause ends before the task is due, or if the key may not read queues. */
void paused_queue_line(const struct cli *cli, struct client *client, const json_t *task, struct buf *out);

/* Prints what the server has to say against a task that was made or changed. Asks only where there may be something. */
void task_print_warnings(struct cli *cli, struct client *client, const json_t *task);

void execution_header(struct table *t); /* the table must have EXECUTION_COLUMNS columns */
void execution_row(struct table *t, const json_t *x);
void execution_duration_text(const json_t *x, char out[TIME_TEXT]); /* from its start to its end; "-": not known */
enum { EXECUTION_COLUMNS = 7 };
