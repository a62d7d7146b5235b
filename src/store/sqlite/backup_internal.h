#pragma once
/* store/sqlite/backup_internal.h - what backup, restore and the secrets that go with both have of each other. */
#include "store/sqlite/backup.h"
#include "store/sqlite/internal.h"

enum err sync_path(const char *path, int flags, struct error *e) must_use;
enum err sync_folder_of(const char *path, struct error *e) must_use;

/* An empty file that only its owner reads, for copy_to to fill. */
enum err make_part(const char *part, struct error *e) must_use;
enum err copy_to(const char *source, const char *part, const struct backup_progress *progress,
                 struct error *e) must_use;

/* Files of a data directory that a copy carries; one may be missing. */
enum { SECRET_COUNT = 2, SECRET_MAX = 4096 };
extern const char *const secret_names[SECRET_COUNT];

/* From the directory into the copy. */
enum err secrets_pack(const char *directory, const char *part, struct error *e) must_use;
/* Out of the copy, into the directory as NAME.next, synced. */
enum err secrets_unpack(const char *part, const char *directory, struct error *e) must_use;
