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

/* A file's content, which stays allocated until the process ends. */
static inline char *scratch_read_file(const char *path, size_t *ret_size)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        perror(path);
        exit(2);
    }
    *ret_size = (size_t)ftell(f);
    rewind(f);
    char *content = malloc(*ret_size + 1);
    if (!content || fread(content, 1, *ret_size, f) != *ret_size) {
        perror(path);
        exit(2);
    }
    fclose(f);
    return content;
}

static inline bool scratch_write_file(const char *path, const char *content, size_t size)
{
    FILE *f = fopen(path, "wb");
    bool written = f && fwrite(content, 1, size, f) == size;
    return f && fclose(f) == 0 && written;
}
