#pragma once
/* platform/key_file.h - the file with the keys that encrypt secrets in the store (port/secrets.h). It belongs to its
 * owner alone: a file that others may read is refused. Any thread. */
#include "port/secrets.h"

#define KEY_FILE_NAME "secrets.key" /* in the data directory, unless secrets.key_file names another */

/* ERR_NOT_FOUND: there is no such file. */
enum err key_file_load(const char *path, struct secrets *ret, struct error *e) must_use;

/* Makes the file with one new key, mode 0600. If another process makes it at the same time, theirs stays: load it. */
enum err key_file_make(const char *path, struct error *e) must_use;

enum key_file_change {
    KEY_FILE_ROTATE, /* a new key in front of the others: it encrypts, when processes have read the file again */
    KEY_FILE_ADD,    /* a new key behind the others: it decrypts only */
    KEY_FILE_USE,    /* moves the key with this id to the front */
    KEY_FILE_FORGET, /* says that the key with this id is lost: its secrets are given up */
};

/* The file is replaced at once. Changes by several processes come one after the other. id: of USE and FORGET. */
enum err key_file_change(const char *path, enum key_file_change change, struct str id, struct error *e) must_use;
