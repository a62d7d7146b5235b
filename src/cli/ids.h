#pragma once
/* cli/ids.h - the objects that a command works on. A task is given by its id, by the beginning of its id, or by its
 * name; the beginning and the name must fit one task only. The server looks names and beginnings up in its indexes, so
 * that a command does not read a long list. */
#include "base/uuid.h"
#include "cli/client.h"

struct ids {
    char (*v)[UUID_TEXT + 1];
    size_t n, cap;
};

void ids_release(struct ids *ids);

/* Checks how many arguments there are, before the server is asked: exactly one, or at least one. */
enum err ids_check_one(const struct options *o, struct error *e) must_use;
enum err ids_check_some(const struct options *o, struct error *e) must_use;

/* Finds the tasks that the arguments name, in `list`: "/v1/tasks", "/v1/dlq" or "/v1/workflows". A whole id is not looked up. If an
 * argument fits no task, or several, prints that with the candidates, and returns EXIT_REFUSED. */
enum exit_code ids_resolve(struct client *c, const struct options *o, const char *list, struct ids *ret) must_use;

/* The same for one word, which is appended to found. */
enum exit_code ids_resolve_word(struct client *c, struct str word, const char *list, struct ids *found) must_use;

/* The same; but if it fits no task, or the key may not look tasks up, prints nothing and appends nothing. */
enum exit_code ids_find_word(struct client *c, struct str word, const char *list, struct ids *found) must_use;

/* A short list of other objects: jobs, breakers, keys. */
struct ids_source {
    const char *path, *member; /* "/v1/breakers", "breakers" */
    const char *name;          /* a member that may be given instead of the id: "host"; NULL: none */
    const char *what;          /* "circuit breaker" */
    const char *list;          /* command that prints them: "breakers list" */
    const char *elsewhere;     /* where else it may be, for the error; NULL: nowhere */
    bool optional; /* if none is found, or the key may not read the list, appends nothing, without an error */
};

/* Finds the object with this id, beginning of an id, or name; appends its id. A whole UUID is not looked up. */
enum exit_code ids_pick(struct client *c, const struct ids_source *from, struct str word, struct buf *ret) must_use;
