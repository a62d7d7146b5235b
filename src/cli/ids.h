#pragma once
/* cli/ids.h - the ids of the tasks that a command works on: its arguments, or all tasks of a list. */
#include "base/uuid.h"
#include "cli/client.h"

struct ids {
    char (*v)[UUID_TEXT + 1];
    size_t n, cap;
};

void ids_release(struct ids *ids);
void ids_add(struct ids *ids, struct uuid id);

/* Parses the arguments as task ids: exactly one, or at least one. */
enum err ids_one(const struct options *o, struct ids *ret, struct error *e) must_use;
enum err ids_some(const struct options *o, struct ids *ret, struct error *e) must_use;

/* Reads the ids of all tasks of a list ("/v1/tasks?status=PAUSED"). The whole list is read first, so that the
 * command does not change the list while it reads it. */
enum exit_code ids_find(struct client *c, const char *path, struct ids *ret) must_use;
