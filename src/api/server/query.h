#pragma once
/* api/server/query.h - reads the query part of a URI (?limit=20&status=FAILED) into a struct, by a table.
 *
 * As strict as base/json/json.h. An unknown, repeated or invalid parameter is refused by its name, and so are a broken
 * percent escape and text that is not UTF-8. Any thread. */
#include "base/arena.h"

enum query_kind {
    QUERY_I64,    /* int64_t within [min, max] */
    QUERY_TEXT,   /* struct str of 1 to max characters (0: 255), in the arena */
    QUERY_TIME,   /* int64_t: RFC 3339 to milliseconds */
    QUERY_ID,     /* struct uuid */
    QUERY_CHOICE, /* int: index into names, + 1 */
    QUERY_STATES, /* unsigned: bit s for each state in a comma-separated list */
    QUERY_RESULTS /* unsigned: bit s for each execution status in a comma-separated list */
};

struct query_field {
    const char *name;
    enum query_kind kind;
    size_t offset; /* of the value in the struct; the value keeps its default if the parameter is absent */
    int64_t min, max;
    const char *const *names; /* QUERY_CHOICE: NULL-terminated */
    const char *also;         /* another word for it, for a suggestion; NULL: none */
};

enum { QUERY_FIELDS_MAX = 32 };

enum err query_read(struct str query, const struct query_field *fields, size_t count, void *into, struct arena *a,
                    struct error *e) must_use;

/* Whether all that a query asks for is a short page: `limit` of at most QUERY_SHORT_PAGE, and `cursor`. */
enum { QUERY_SHORT_PAGE = 100 };
bool query_is_short_page(struct str query);

/* ERR_INVALID, field "to": the range ends before it begins, or is empty. */
enum err query_check_range(int64_t from_ms, int64_t to_ms, struct error *e) must_use;

/* Decodes percent escapes (and, in queries, '+' as a space). ERR_INVALID: a broken escape, a NUL byte, or text that is
 * not UTF-8. */
enum err url_decode(struct str raw, bool is_query, struct arena *a, struct str *ret, struct error *e) must_use;
