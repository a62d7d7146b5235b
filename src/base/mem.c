#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *mem_checked(void *p)
{
    if (!p) {
        fputs("belfry: out of memory\n", stderr);
        abort();
    }
    return p;
}

void *xmalloc(size_t n)
{
    return mem_checked(malloc(n ? n : 1));
}

void *xcalloc(size_t count, size_t size)
{
    return mem_checked(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t n)
{
    return mem_checked(realloc(p, n ? n : 1));
}

char *xstrdup(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(xmalloc(n), s, n);
}

void free_const(const void *p)
{
    union {
        const void *theirs;
        void *ours;
    } memory = { p };
    free(memory.ours);
}

void free_charp(char **p)
{
    free(*p);
}
