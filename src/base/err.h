#pragma once
/* base/err.h - errors: a closed set named by what the caller can do, plus a sentence for a person.
 *
 * A function that can fail returns enum err (must_use), hands its result out through a `ret` pointer that it
 * leaves untouched on failure, and takes a struct error * last. A bug in our own code asserts instead. */
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

/* field names the input at fault as its reader wrote it ("retry.base_delay_ms", "--tz", "minute"), or is empty.
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

/* Puts context in front of the sentence: "open 'x.db': disk I/O error". Returns e's code. */
enum err error_wrap(struct error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts a field path in front of the field: error_in(e, "retry") turns "base_delay_ms" into "retry.base_delay_ms". */
enum err error_in(struct error *e, const char *parent);

/* "invalid input", for a code without a sentence. */
const char *err_text(enum err code);
