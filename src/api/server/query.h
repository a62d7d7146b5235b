#pragma once
/* api/server/query.h - what stands behind the path: ?limit=20&status=FAILED, read into a struct by a table.
 *
 * As strict as base/json/json.h: an unknown, repeated or impossible parameter is refused by its name, a broken escape and what
 * is not UTF-8 as well. */
#include "base/arena.h"

enum query_kind {
    QUERY_I64,    /* int64_t within [min, max] */
    QUERY_TEXT,   /* struct str of at most max bytes (0: 255), in the arena */
    QUERY_TIME,   /* int64_t: RFC 3339 to milliseconds */
    QUERY_ID,     /* struct uuid */
    QUERY_CHOICE, /* int: index into names, + 1 */
    QUERY_STATES, /* unsigned: bit s for each state named, commas between them */
    QUERY_RESULTS /* unsigned: bit s for each status of executions named */
};

struct query_field {
    const char *name;
    enum query_kind kind;
    size_t offset; /* of the value in the struct; it stays as it was when the parameter is absent */
    int64_t min, max;
    const char *const *names; /* QUERY_CHOICE: NULL-terminated */
};

enum { QUERY_FIELDS_MAX = 32 };

enum err query_read(struct str query, const struct query_field *fields, size_t count, void *into, struct arena *a,
                    struct error *e) must_use;

/* Percent escapes undone (and '+' for a blank, in queries): ERR_INVALID for a broken one, a NUL, or what is not UTF-8. */
enum err url_decode(struct str raw, bool is_query, struct arena *a, struct str *ret, struct error *e) must_use;
