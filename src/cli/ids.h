#pragma once
/* cli/ids.h - the tasks a command is about: ids as words, or all that a filter finds. */
#include "base/uuid.h"
#include "cli/client.h"

struct ids {
    char (*v)[UUID_TEXT + 1];
    size_t n, cap;
};

void ids_release(struct ids *ids);
void ids_add(struct ids *ids, struct uuid id);

/* The words, which must be ids; exactly one, or at least one. */
enum err ids_one(const struct options *o, struct ids *ret, struct error *e) must_use;
enum err ids_some(const struct options *o, struct ids *ret, struct error *e) must_use;

/* All tasks of a list ("/v1/tasks?status=PAUSED"). They are read before anything is done, so that what is done does not change
 * the list meanwhile. */
enum exit_code ids_find(struct client *c, const char *path, struct ids *ret) must_use;
