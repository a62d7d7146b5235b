#pragma once
/* store/sqlite/backup_internal.h - shared by backup, restore and the secret files of both. */
#include "store/sqlite/backup.h"
#include "store/sqlite/internal.h"

enum err backup_sync_path(const char *path, int flags, struct error *e) must_use;
enum err backup_sync_folder_of(const char *path, struct error *e) must_use;

/* For file systems without RENAME_NOREPLACE. -1 and errno: a file has that name already, or it failed. */
int backup_rename_by_link(const char *part, const char *path);

/* Creates an empty file that only its owner can read, for backup_copy_to to fill. */
enum err backup_make_part(const char *part, struct error *e) must_use;
/* Opens a part file to be changed before it is used. */
enum err backup_open_part(const char *part, struct conn *ret, struct error *e) must_use;
/* The id of a key that secrets in the copy need; "": it has none. */
enum err backup_find_key(const char *part, char ret[BACKUP_KEY_TEXT], struct error *e) must_use;
enum err backup_copy_to(const char *source, const char *part, const struct backup_progress *progress,
                        struct error *e) must_use;

/* Secret files of a data directory that a copy holds; each may be missing. */
enum { SECRET_COUNT = 3, SECRET_MAX = 8192 };
extern const char *const secret_names[SECRET_COUNT];

/* Copies the secret files of the directory into the copy. */
enum err secrets_pack(const char *directory, const char *part, bool with_keys, struct error *e) must_use;
/* Writes the secret files of the copy into the directory as NAME.next, synced, and removes them from the copy. */
enum err secrets_unpack(const char *part, const char *directory, struct error *e) must_use;
