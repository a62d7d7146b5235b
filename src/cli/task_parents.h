#pragma once
/* cli/task_parents.h - the tasks of --after, given by id, by the beginning of an id, or by name. */
#include "base/json/jsonw.h"
#include "cli/ids.h"

/* Writes depends_on: TASK or TASK:TYPE of each word. ids: of the tasks, in the same order; NULL: as the words have
 * them. */
void task_parents_write(const struct option_value *words, const struct ids *ids, struct jw *w);

/* Replaces the words of --after in the body, a JSON object, by ids. Asks the server for those that are no ids. */
enum exit_code task_parents_resolve(struct client *c, const struct options *o, struct buf *body) must_use;
