#pragma once
/* store/sqlite/copy_mark.h - the file `copied-to` of a data directory: its data was copied into a PostgreSQL database.
 * It warns those who go on with the old data; it forbids nothing, because a copy may be a trial. A restore into the
 * directory removes it. */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { COPY_MARK_ADDRESS_TEXT = 1024 };

struct copy_mark {
    char address[COPY_MARK_ADDRESS_TEXT]; /* URL of the database, without its password */
    int64_t copied_ms;
};

enum err copy_mark_write(const char *directory, const struct copy_mark *m, struct error *e) must_use;
/* False: the directory has no mark, or one that cannot be read. Then *ret is unchanged. */
bool copy_mark_read(const char *directory, struct copy_mark *ret) must_use;
