/* Opens the store: SQLite in the data directory, or a PostgreSQL database that nodes share. Also loads the pepper,
 * with which API keys are hashed, and creates the first admin key. Nodes of one database share one pepper. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "api/auth/admin_keys.h"
#include "api/auth/auth.h"
#include "base/log.h"
#include "core/time/offset.h"
#include "platform/clock_offset.h"
#include "platform/directory.h"
#include "platform/last_fire.h"
#include "port/crypto.h"
#include "server/server_internal.h"
#include "store/postgres/store_postgres.h"
#include "store/sqlite/store_sqlite.h"

enum { CLOCK_SAMPLES = 3 }; /* the first one also connects, so it is slow */

static enum err server_write_secret(const char *path, const void *data, size_t n, struct error *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, data, n) == (ssize_t)n && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    return ok ? ERR_OK : error_set(e, ERR_UNAVAILABLE, "write '%s': %s", path, strerror(why));
}

/* The first start creates the pepper. Without the right pepper no API key works, so a damaged file is an error. */
static enum err server_load_pepper(struct server *a, struct error *e)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/pepper", a->setup.data_dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        a->made_pepper = true;
        crypto_random(a->pepper, sizeof a->pepper);
        return server_write_secret(path, a->pepper, sizeof a->pepper, e);
    }
    ssize_t n = fd < 0 ? -1 : read(fd, a->pepper, sizeof a->pepper);
    if (fd >= 0)
        close(fd);
    if (n != (ssize_t)sizeof a->pepper)
        return error_set(e, ERR_CORRUPT, "'%s' is damaged: restore it from a backup; without it no API key works",
                         path);
    return ERR_OK;
}

static struct str server_pepper(struct server *a)
{
    return (struct str){ (const char *)a->pepper, sizeof a->pepper };
}

/* Only the first start on a store creates the key. The key file is in the data directory of that node, and on no
 * other. If the pepper was lost, as after a restore without secrets, no stored key works: the server makes another
 * admin key, beside them, so that somebody can create new ones. */
static enum err server_make_first_key(struct server *a, char ret_key[SERVER_KEY_TEXT], struct error *e)
{
    char text[AUTH_KEY_TEXT + 1] = "", line[AUTH_KEY_TEXT + 2], path[PATH_MAX];
    int64_t now_ms = clock_wall_ms(a->setup.clock);
    if (auth_bootstrap(a->store, server_pepper(a), now_ms, text, e))
        return e->code;
    a->has_useless_keys = a->made_pepper && !text[0];
    if (a->has_useless_keys && auth_add_admin(a->store, server_pepper(a), now_ms, text, e))
        return e->code;
    snprintf(ret_key, SERVER_KEY_TEXT, "%s", text);
    if (!text[0])
        return ERR_OK;
    snprintf(path, sizeof path, "%s/admin.key", a->setup.data_dir);
    int n = snprintf(line, sizeof line, "%s\n", text);
    return server_write_secret(path, line, (size_t)n, e);
}

/* ---- stores and writers ---- */

static enum err server_open_sqlite(struct server *a, struct error *e)
{
    if (store_sqlite_open(a->setup.data_dir, clock_wall_ms(a->setup.clock), &a->ways[OP_VIA_ALL], e))
        return e->code;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/last_fire", a->setup.data_dir);
    a->last_fire = last_fire_open(path, &a->last_fired_ms);
    a->store = a->ways[OP_VIA_ALL];
    return server_load_pepper(a, e);
}

/* Urgent operations are retried at the heartbeat interval: after an outage, all nodes must send heartbeats again
 * before a node that came back earlier marks one of them dead. */
static enum err server_open_connection(const struct server_setup *setup, enum op_route way, struct store *beside,
                                       struct store **ret, struct error *e)
{
    struct store_postgres_setup store = { .url = setup->store_url,
                                          .read_url = setup->store_read_url,
                                          .listen_url = setup->store_listen_url,
                                          .clock = setup->clock,
                                          .retry_ms = way == OP_VIA_URGENT ? setup->heartbeat_ms : 0,
                                          .migrate = !beside,
                                          .sibling_of = beside,
                                          .archive_dir = setup->archive_dir };
    return store_postgres_open(&store, ret, e);
}

static enum err server_open_postgres(struct server *a, struct error *e)
{
    const struct server_setup *setup = &a->setup;
    crypto_random(a->pepper, sizeof a->pepper); /* used if the database has none yet */
    if (!directory_make(setup->data_dir))
        return error_set(e, ERR_UNAVAILABLE, "make data directory '%s': %s", setup->data_dir, strerror(errno));
    for (int way = 0; way < OP_ROUTES; way++)
        if (server_open_connection(setup, (enum op_route)way, a->ways[OP_VIA_ALL], &a->ways[way], e))
            return e->code;
    a->store = a->ways[OP_VIA_ALL];
    return store_postgres_join(setup->store_url, setup->clock, a->pepper, sizeof a->pepper, e);
}

enum err server_open_store(struct server *a, char ret_key[SERVER_KEY_TEXT], struct error *e)
{
    enum err rc = a->setup.store_url ? server_open_postgres(a, e) : server_open_sqlite(a, e);
    if (!rc)
        rc = server_open_keys(a, e);
    if (!rc)
        rc = server_make_first_key(a, ret_key, e);
    if (!rc && a->setup.makes_login_code)
        rc = auth_add_code(a->store, server_pepper(a), clock_wall_ms(a->setup.clock), a->login_code, e);
    return rc;
}

struct writer *server_open_writer(struct server *a)
{
    struct writer *ways[OP_ROUTES];
    for (int way = 0; way < OP_ROUTES && a->ways[way]; way++) {
        a->batchers[way] = batcher_new(a->ways[way], a->metrics, a->setup.clock);
        ways[way] = batcher_writer(a->batchers[way]);
    }
    batcher_watch(a->batchers[OP_VIA_ALL], server_on_lanes_unblocked, a);
    return a->batchers[OP_VIA_CLAIMS] ? writer_split_init(&a->split, ways) : ways[OP_VIA_ALL];
}

void server_close_store(struct server *a)
{
    last_fire_close(a->last_fire);
    for (int way = OP_ROUTES; way-- > 0;) /* OP_VIA_ALL last: the others borrow from it */
        store_free(a->ways[way]);
}

enum err server_adopt_store_clock(struct server *a, struct error *e)
{
    struct reader *r = NULL;
    struct offset offset = { 0 };
    if (!store_is_shared(a->store))
        return ERR_OK;
    a->setup.clock = a->clock = clock_offset_new(a->setup.clock);
    enum err rc = store_reader(a->store, &r, e);
    for (int i = 0; rc == ERR_OK && i < CLOCK_SAMPLES; i++) {
        int64_t sent_us = clock_steady_us(a->clock), store_us;
        rc = reader_clock(r, &store_us, e);
        if (rc == ERR_OK)
            offset_add(&offset, sent_us, clock_steady_us(a->clock), store_us);
    }
    store_keep_reader(a->store, r, rc);
    struct offset_view v = offset_view(&offset, clock_steady_us(a->clock));
    if (rc == ERR_OK)
        clock_correct(a->clock, v.low_us, 2 * v.error_us);
    return rc;
}
