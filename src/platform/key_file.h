#pragma once
/* platform/key_file.h - the file with the keys that encrypt secrets in the store (port/secrets.h). It belongs to its
 * owner alone: a file that others may read is refused. */
#include "port/secrets.h"

#define KEY_FILE_NAME "secrets.key" /* in the data directory, unless secrets.key_file names another */

/* ERR_NOT_FOUND: there is no such file. */
enum err key_file_load(const char *path, struct secrets *ret, struct error *e) must_use;

/* Makes the file with one new key, mode 0600. If another process makes it at the same time, theirs stays: load it. */
enum err key_file_make(const char *path, struct error *e) must_use;

/* Puts a new key in front of the others: it encrypts from now on, when processes have read the file again. The file is
 * replaced at once. */
enum err key_file_add(const char *path, struct error *e) must_use;
