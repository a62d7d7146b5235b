#pragma once
/* base/err.h - errors: a closed set of codes, named by what the caller can do, plus a sentence for a person.
 *
 * A function that can fail:
 *  - returns enum err (must_use);
 *  - returns its result through a `ret` pointer, which it leaves untouched on failure;
 *  - takes a struct error * as its last argument.
 * A bug in our own code fails an assertion instead. */
#include "base/mem.h"

#define ERR_MAP(X)                                                                                                     \
    X(INVALID, "invalid input")                                                                                        \
    X(NOT_FOUND, "not found")                                                                                          \
    X(CONFLICT, "changed by another")                                                                                  \
    X(LIMIT, "limit reached")                                                                                          \
    X(UNAVAILABLE, "backend down, safe to retry")                                                                      \
    X(CORRUPT, "invariant broken")

enum err {
    ERR_OK,
#define X(name, text) ERR_##name,
    ERR_MAP(X)
#undef X
};

/* field is the name of the invalid input, as the user wrote it ("retry.base_delay_ms", "--tz", "minute"), or empty.
 * text is the sentence, without the field's name and without a full stop. */
struct error {
    enum err code;
    char field[96];
    char text[416];
};

/* Each fills *e (which may be NULL) and returns the code, so that a failure is one line: return error_set(…). */
enum err error_set(struct error *e, enum err code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
enum err error_field(struct error *e, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); /* always ERR_INVALID */

enum err error_no_room(struct error *e); /* ERR_LIMIT: an arena or another bounded memory is full */

/* Prepends context to the sentence: "open 'x.db': disk I/O error". Returns e's code. */
enum err error_wrap(struct error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prepends a path to the field: error_in(e, "retry") turns "base_delay_ms" into "retry.base_delay_ms". */
enum err error_in(struct error *e, const char *parent);

/* A general sentence for a code, such as "invalid input". */
const char *err_text(enum err code);
