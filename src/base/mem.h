#pragma once
/* base/mem.h - allocation that cannot fail, cleanup by scope, and transfer of ownership.
 *
 * If a small allocation fails, the process aborts: it could not recover, and callers need no error path. Memory whose
 * size a user controls comes from a capped arena or buffer instead. */
#include <stddef.h>

void *xmalloc(size_t n) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *xrealloc(void *p, size_t n) __attribute__((returns_nonnull, warn_unused_result));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull, warn_unused_result));

/* struct thing *t = xnew(*t);   zeroed */
#define xnew(x) ((typeof(x) *)xcalloc(1, sizeof(x)))

/* Runs fn(&variable) when the variable leaves its scope. */
#define cleanup_with(fn) __attribute__((cleanup(fn), unused)) /* unused: it may only be there for its end */

/* Moves a pointer out of its variable, which becomes NULL. Marks the line where ownership is handed over. */
#define take(p)                                                                                                        \
    __extension__({                                                                                                    \
        typeof(p) taken_ = (p);                                                                                        \
        (p) = NULL;                                                                                                    \
        taken_;                                                                                                        \
    })

/* Frees memory that its owner keeps through a const pointer. NULL is allowed. */
void free_const(const void *p);

/* For cleanup_with on a char * variable. */
void free_charp(char **p);

#define must_use                      __attribute__((warn_unused_result))
#define array_count(a)                (sizeof(a) / sizeof((a)[0]))
#define min_of(a, b)                  ((a) < (b) ? (a) : (b))
#define max_of(a, b)                  ((a) > (b) ? (a) : (b))
#define container_of(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))
