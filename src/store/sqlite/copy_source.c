/* The source of a copy: an embedded installation, locked as a server locks it, and read table by table. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "platform/key_file.h"
#include "store/common/copy_internal.h"
#include "store/sqlite/internal.h"

enum { SQL_MAX = 1 << 14 };

struct copy_source {
    struct store *store; /* has the lock; its schema is migrated */
    char *directory;
    struct conn conn;
    enum copy_table table; /* the table that is being read */
    bool at_end;
    sqlite3_stmt *rows, *find[COPY_TABLES];
};

static void copy_source_add_columns(struct buf *sql, const struct copy_kind *k)
{
    buf_text(sql, "SELECT 0");
    for (int i = 0; i < k->table->count; i++)
        buf_printf(sql, ", %s", k->table->columns[i].name);
    buf_printf(sql, " FROM %s", k->name);
}

static enum err copy_source_prepare(struct copy_source *s, const struct buf *sql, sqlite3_stmt **ret, struct error *e)
{
    return sqlite3_prepare_v2(s->conn.db, buf_cstr(sql), -1, ret, NULL) == SQLITE_OK ? ERR_OK : conn_fail(&s->conn, e);
}

static enum err copy_source_prepare_find(struct copy_source *s, const struct copy_kind *k, sqlite3_stmt **ret,
                                         struct error *e)
{
    cleanup_with(buf_release) struct buf sql;
    buf_init(&sql, SQL_MAX);
    copy_source_add_columns(&sql, k);
    for (int i = 0; i < k->key_count; i++)
        buf_printf(&sql, " %s %s = ?", i ? "AND" : "WHERE", k->table->columns[k->key[i]].name);
    return copy_source_prepare(s, &sql, ret, e);
}

static enum err copy_source_open_file(struct copy_source *s, int64_t now_ms, struct error *e)
{
    cleanup_with(free_charp) char *path = directory_file(s->directory);
    if (access(path, F_OK))
        return error_set(e, ERR_NOT_FOUND, "there is no Belfry data in '%s'", s->directory);
    if (store_sqlite_open(s->directory, now_ms, &s->store, e) || conn_open(&s->conn, path, CONN_COPY, e))
        return e->code;
    for (int i = 0; i < COPY_TABLES; i++)
        if (copy_source_prepare_find(s, &copy_kinds[i], &s->find[i], e))
            return e->code;
    return ERR_OK;
}

enum err copy_source_open(const char *directory, int64_t now_ms, struct copy_source **ret, struct error *e)
{
    struct copy_source *s = xnew(*s);
    s->directory = xstrdup(directory);
    if (copy_source_open_file(s, now_ms, e)) {
        copy_source_free(s);
        return e->code;
    }
    *ret = s;
    return ERR_OK;
}

void copy_source_free(struct copy_source *s)
{
    if (!s)
        return;
    sqlite3_finalize(s->rows);
    for (int i = 0; i < COPY_TABLES; i++)
        sqlite3_finalize(s->find[i]);
    if (s->conn.path)
        conn_release(&s->conn);
    store_free(s->store);
    free(s->directory);
    free(s);
}

enum err copy_source_pepper(const struct copy_source *s, uint8_t ret[PEPPER_SIZE], bool *ret_found, struct error *e)
{
    cleanup_with(free_charp) char *path = directory_path(s->directory, "pepper");
    *ret_found = access(path, F_OK) == 0;
    if (!*ret_found)
        return ERR_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, PEPPER_SIZE);
    if (fd >= 0)
        close(fd);
    return n == PEPPER_SIZE ? ERR_OK
                            : error_set(e, ERR_CORRUPT, "'%s' is not what Belfry wrote there: restore a backup", path);
}

/* An earlier version left the directory without fingerprints: takes those of the keys in its file. If the file is
 * elsewhere, none is known, and a node notices a wrong file by the first task that needs another key. */
static enum err copy_source_file_keys(const struct copy_source *s, struct key_prints *ret, struct error *e)
{
    cleanup_with(free_charp) char *path = directory_path(s->directory, KEY_FILE_NAME);
    struct secrets keys = { 0 };
    enum err rc = key_file_load(path, &keys, e);
    if (rc)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    for (size_t i = 0; i < keys.n; i++)
        ret->v[ret->n++] = secrets_print(&keys, i);
    memcpy(ret->current, ret->v[0].print, SECRETS_PRINT);
    ret->has_current = true;
    explicit_bzero(&keys, sizeof keys);
    return ERR_OK;
}

enum err copy_source_keys(struct copy_source *s, struct key_prints *ret, bool *ret_has_secrets, struct error *e)
{
    static const char sealed_sql[] = "SELECT EXISTS (SELECT 1 FROM tasks WHERE instr(target_config, '\"enc:1:')) OR "
                                     "EXISTS (SELECT 1 FROM definitions WHERE instr(text, '\"enc:1:')) OR "
                                     "EXISTS (SELECT 1 FROM catalog WHERE instr(doc, '\"enc:1:'))";
    int64_t sealed;
    *ret = (struct key_prints){ 0 };
    if (conn_number(&s->conn, sealed_sql, &sealed, e))
        return e->code;
    *ret_has_secrets = sealed;
    if (!sealed || sqlite_key_prints(&s->conn, ret, e))
        return sealed ? e->code : ERR_OK;
    return ret->n ? ERR_OK : copy_source_file_keys(s, ret, e);
}

enum err copy_source_count(struct copy_source *s, enum copy_table t, int64_t *ret, struct error *e)
{
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", copy_kinds[t].name);
    return conn_number(&s->conn, sql, ret, e);
}

enum err copy_source_begin(struct copy_source *s, enum copy_table t, struct error *e)
{
    cleanup_with(buf_release) struct buf sql;
    buf_init(&sql, SQL_MAX);
    copy_source_add_columns(&sql, &copy_kinds[t]);
    sqlite3_finalize(s->rows);
    s->rows = NULL;
    s->table = t;
    s->at_end = false;
    return copy_source_prepare(s, &sql, &s->rows, e);
}

enum err copy_source_next(struct copy_source *s, struct arena *a, void *row, bool *ret_found, struct error *e)
{
    *ret_found = false;
    if (s->at_end)
        return ERR_OK;
    if (conn_step(&s->conn, s->rows, ret_found, e))
        return e->code;
    s->at_end = !*ret_found; /* another step would start from the first row again */
    return *ret_found ? row_read(&s->conn, s->rows, 1, copy_kinds[s->table].table, a, row, e) : ERR_OK;
}

static void copy_source_bind_key(sqlite3_stmt *st, int at, const struct column *c, const void *row)
{
    const void *member = (const char *)row + c->offset;
    switch (c->kind) {
    case COL_UUID: (void)bind_uuid(st, at, member); break;
    case COL_BYTES32: sqlite3_bind_blob(st, at, member, 32, SQLITE_STATIC); break;
    case COL_I64: sqlite3_bind_int64(st, at, *(const int64_t *)member); break;
    case COL_INT: sqlite3_bind_int(st, at, *(const int *)member); break;
    default: (void)bind_str(st, at, *(const struct str *)member);
    }
}

enum err copy_source_find(struct copy_source *s, enum copy_table t, const void *like, struct arena *a, void *row,
                          bool *ret_found, struct error *e)
{
    const struct copy_kind *k = &copy_kinds[t];
    sqlite3_stmt *st = s->find[t];
    for (int i = 0; i < k->key_count; i++)
        copy_source_bind_key(st, i + 1, &k->table->columns[k->key[i]], like);
    if (conn_step(&s->conn, st, ret_found, e))
        return e->code;
    if (!*ret_found)
        return ERR_OK;
    enum err rc = row_read(&s->conn, st, 1, k->table, a, row, e);
    sqlite3_reset(st);
    return rc;
}
