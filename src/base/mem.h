#pragma once
/* base/mem.h - memory that is always there, cleanup by scope, and moving ownership.
 *
 * Running out of memory on small objects aborts: nothing sensible can be done, and code that cannot fail is
 * code that need not be tested for it. Memory whose size a user chooses comes from a capped arena or buffer. */
#include <stddef.h>

void *xmalloc(size_t n) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *xrealloc(void *p, size_t n) __attribute__((returns_nonnull, warn_unused_result));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull, warn_unused_result));

/* struct thing *t = xnew(*t);   zeroed */
#define xnew(x) ((typeof(x) *)xcalloc(1, sizeof(x)))

/* Runs fn(&variable) when the variable leaves its scope. */
#define cleanup_with(fn) __attribute__((cleanup(fn)))

/* Moves a pointer out of its variable: the one line that hands it over. */
#define take(p)                                                                                                        \
    __extension__({                                                                                                    \
        typeof(p) taken_ = (p);                                                                                        \
        (p) = NULL;                                                                                                    \
        taken_;                                                                                                        \
    })

/* Frees what is const to everyone but its owner. NULL is fine. */
void free_const(const void *p);

/* For cleanup_with: frees what a char * variable points at. */
void free_charp(char **p);

#define must_use                      __attribute__((warn_unused_result))
#define array_count(a)                (sizeof(a) / sizeof((a)[0]))
#define min_of(a, b)                  ((a) < (b) ? (a) : (b))
#define max_of(a, b)                  ((a) > (b) ? (a) : (b))
#define container_of(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))
