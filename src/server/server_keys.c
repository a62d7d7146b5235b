/* The key file of a node (port/secrets.h). The store knows the fingerprints of the keys that its secrets are encrypted
 * with, so a node with another file does not start: it could decrypt nothing, and its tasks would fail. */
#include <stdio.h>

#include "platform/key_file.h"
#include "port/crypto.h"
#include "server/server_internal.h"
#include "store/postgres/store_postgres.h"
#include "store/sqlite/store_sqlite.h"

/* ---- what the store knows ---- */

enum err server_keys_known(struct server *a, struct key_prints *ret, struct error *e)
{
    struct reader *r = NULL;
    enum err rc = store_reader(a->store, &r, e);
    if (!rc)
        rc = reader_key_prints(r, ret, e);
    store_keep_reader(a->store, r, rc);
    return rc;
}

static enum err server_keys_use(struct server *a, struct key_print k, const struct key_prints *known, struct error *e)
{
    const char *url = a->setup.store_url;
    return url ? store_postgres_key_use(url, a->setup.clock, &k, known, e) : store_sqlite_key_use(a->store, &k, e);
}

enum err server_keys_note(struct server *a, const struct key_print *k, struct error *e)
{
    const char *url = a->setup.store_url;
    return url ? store_postgres_key_note(url, a->setup.clock, k, e) : store_sqlite_key_use(a->store, k, e);
}

enum err server_keys_drop(struct server *a, const struct key_print *k, struct error *e)
{
    const char *url = a->setup.store_url;
    return url ? store_postgres_key_drop(url, a->setup.clock, k, e) : store_sqlite_key_drop(a->store, k, e);
}

/* Whether the store has secrets that are encrypted with this key; empty: with any. */
static enum err server_keys_has_sealed(struct server *a, struct str id, bool *ret, struct error *e)
{
    struct reader *r = NULL;
    enum err rc = store_reader(a->store, &r, e);
    if (!rc)
        rc = reader_sealed(r, id, ret, e);
    store_keep_reader(a->store, r, rc);
    return rc;
}

/* ---- refusals ---- */

static enum err server_keys_miss_file(const struct server *a, const char *path, struct error *e)
{
    return error_set(
        e, ERR_CONFLICT, "the key file '%s' is missing, and the store has secrets that are encrypted with it: %s", path,
        a->setup.store_url ? "every node needs the same file; copy it from another node, or secrets.key from the data "
                             "directory that 'belfry copy' read, and name it in secrets.key_file"
                           : "put it back (a backup has it only with --with-keys)");
}

static enum err server_keys_refuse(const struct server *a, const char *path, const char *id, struct error *e)
{
    bool cluster = a->setup.store_url;
    for (size_t i = 0; i < a->secrets.n; i++)
        if (strcmp(a->secrets.keys[i].id, id) == 0)
            return error_set(e, ERR_CONFLICT,
                             "the key file '%s' has another key '%s' than %s encrypts with: put the right file back%s",
                             path, id, cluster ? "this database" : "the store",
                             cluster ? ", a copy of another node's" : "");
    return error_set(
        e, ERR_CONFLICT,
        "the key file '%s' has other keys than %s: it lacks key '%s'. %s If that key is lost for good, 'belfry secrets "
        "forget %s --key-file %s' gives its secrets up",
        path, cluster ? "the other nodes of this database" : "the store", id,
        cluster ? "Every node needs the same file: copy it from another node, or from the data directory that 'belfry "
                  "copy' read."
                : "Put the right file back.",
        id, path);
}

/* ---- checks ---- */

/* The store must not know a key that the file lacks, unless nothing is encrypted with it: then the store drops it. In a
 * cluster, other nodes may encrypt with the current one at any moment. */
static enum err server_keys_check(struct server *a, const char *path, struct key_prints *known, struct error *e)
{
    const struct key_print *k;
    while ((k = secrets_lack(&a->secrets, known))) {
        bool needed = a->setup.store_url && crypto_equal(k->print, known->current, SECRETS_PRINT);
        if (!needed && server_keys_has_sealed(a, str_from(k->id), &needed, e))
            return e->code;
        if (needed)
            return a->secrets.n ? server_keys_refuse(a, path, k->id, e) : server_keys_miss_file(a, path, e);
        if (server_keys_drop(a, k, e) || server_keys_known(a, known, e))
            return e->code;
    }
    return ERR_OK;
}

/* A database of an earlier version knows the fingerprint of one key, but not its id. */
static enum err server_keys_adopt(struct server *a, const char *path, struct key_prints *known, struct error *e)
{
    if (!a->setup.store_url || !known->has_current || known->n)
        return ERR_OK;
    size_t i = secrets_find_print(&a->secrets, known->current);
    if (!a->secrets.n)
        return server_keys_miss_file(a, path, e);
    if (i == a->secrets.n)
        return error_set(e, ERR_CONFLICT,
                         "the key file '%s' has other keys than the other nodes of this database: every node needs the "
                         "same file; copy it from another node",
                         path);
    return server_keys_use(a, secrets_print(&a->secrets, i), known, e) ? e->code : server_keys_known(a, known, e);
}

/* The first key becomes known before anything is encrypted with it, and the current one, also if the store knows it
 * already: an operator may go back to an older key. Another node with another file may do the same at the same time:
 * one of them finds the key of the other. */
static enum err server_keys_join(struct server *a, const char *path, struct key_prints *known, struct error *e)
{
    enum { TRIES = 3 };
    struct key_print own = secrets_print(&a->secrets, 0);
    for (int i = 0; i < TRIES; i++) {
        if (server_keys_check(a, path, known, e))
            return e->code;
        bool is_current = !a->setup.store_url || crypto_equal(own.print, known->current, SECRETS_PRINT);
        if (is_current && key_prints_find(known, str_from(own.id)))
            return ERR_OK;
        if (server_keys_use(a, own, known, e) || server_keys_known(a, known, e))
            return e->code;
    }
    return error_set(e, ERR_UNAVAILABLE, "other nodes change the keys at the same time: start again");
}

/* A single node makes the file at its first start. Nodes of one database share no directory, so the file is never made
 * in silence: a cluster encrypts if it is told a file, or has one where a single node had it. */
static enum err server_keys_make(struct server *a, const char *path, struct error *e)
{
    bool sealed = false;
    if (a->setup.store_url && !a->setup.key_file)
        return ERR_OK;
    if (server_keys_has_sealed(a, S(""), &sealed, e))
        return e->code;
    if (sealed)
        return server_keys_miss_file(a, path, e);
    return key_file_make(path, e) ? e->code : key_file_load(path, &a->secrets, e);
}

enum err server_open_keys(struct server *a, struct error *e)
{
    char in_data_dir[PATH_MAX];
    struct key_prints known;
    snprintf(in_data_dir, sizeof in_data_dir, "%s/" KEY_FILE_NAME, a->setup.data_dir);
    const char *path = a->setup.key_file ? a->setup.key_file : in_data_dir;
    enum err rc = key_file_load(path, &a->secrets, e);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    if (server_keys_known(a, &known, e) || server_keys_adopt(a, path, &known, e) ||
        server_keys_check(a, path, &known, e) || (rc == ERR_NOT_FOUND && server_keys_make(a, path, e)))
        return e->code;
    return a->secrets.n ? server_keys_join(a, path, &known, e) : ERR_OK;
}
