#pragma once
/* tests/support/scratch.h - temporary folders for tests, in $TMPDIR (which ./test sets to a fast file system), else in
 * /tmp. */
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCRATCH_PATH = 64 };

/* Creates a folder whose name starts with this prefix. */
static inline bool scratch_make(const char *name, char out[SCRATCH_PATH])
{
    const char *where = getenv("TMPDIR");
    int n = snprintf(out, SCRATCH_PATH, "%s/%s-XXXXXX", where && where[0] ? where : "/tmp", name);
    return n < SCRATCH_PATH && mkdtemp(out);
}

static inline int scratch_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* Deletes the folder with its content, without a child process: forking is slow under a memory checker. */
static inline bool scratch_remove(const char *path)
{
    return nftw(path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0;
}
