#pragma once
/* tests/support/scratch.h - folders for what a test leaves behind, in $TMPDIR, which ./test sets to where writing is cheap; else /tmp. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCRATCH_PATH = 64 };

/* A new folder whose name begins so. */
static inline bool scratch_make(const char *name, char out[SCRATCH_PATH])
{
    const char *where = getenv("TMPDIR");
    int n = snprintf(out, SCRATCH_PATH, "%s/%s-XXXXXX", where && where[0] ? where : "/tmp", name);
    return n < SCRATCH_PATH && mkdtemp(out);
}
