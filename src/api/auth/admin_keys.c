#include "api/auth/admin_keys.h"

#include <time.h>

#include "api/auth/session_keys.h"
#include "api/server/audit.h"
#include "port/crypto.h"

#define ADMIN_KEY_ID "admin00001" /* of the first one */

static enum err auth_apply_op(struct store *store, struct op *op, struct error *e)
{
    arena_init(&op->arena, 64 * 1024);
    struct op *const ops[] = { op };
    enum err rc = store_apply(store, ops, 1, e);
    if (!rc && op->rc) {
        *e = op->error;
        rc = op->rc;
    }
    arena_release(&op->arena);
    return rc;
}

/* If several nodes start at the same time, one makes the key and the others wait for it. If that node dies meanwhile,
 * they wait until its lease has expired. */
enum { BOOTSTRAP_MS = 10000, BOOTSTRAP_POLL_MS = 50 };

static enum err auth_bootstrap_lease(struct store *store, struct uuid holder, int64_t now_ms, int64_t ttl_ms,
                                     bool *ret_held, struct error *e)
{
    struct op_lease op = {
        .op = { .kind = OP_LEASE }, .name = S("bootstrap"), .holder = holder, .now_ms = now_ms, .ttl_ms = ttl_ms
    };
    enum err rc = auth_apply_op(store, &op.op, e);
    if (rc == ERR_OK)
        *ret_held = op.ret_held;
    return rc;
}

/* An admin key of the default tenant; its id is empty: there is none. */
static enum err auth_find_admin_key(struct store *store, int64_t now_ms, struct arena *a, struct api_key *ret,
                                    struct error *e)
{
    struct reader *r = NULL;
    struct key_list keys = { 0 };
    enum err rc = store_reader(store, &r, e);
    if (rc == ERR_OK)
        rc = reader_keys(r, TENANT_DEFAULT, a, &keys, e);
    store_keep_reader(store, r, rc);
    if (rc)
        return rc;
    *ret = (struct api_key){ 0 };
    for (size_t i = 0; i < keys.n; i++)
        if (api_key_is_admin(&keys.v[i], now_ms) && (!ret->id.n || str_eq(keys.v[i].id, S(ADMIN_KEY_ID))))
            *ret = keys.v[i];
    return ERR_OK;
}

static enum err auth_find_admin(struct store *store, int64_t now_ms, bool *ret, struct error *e)
{
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, 4 << 20);
    struct api_key key;
    enum err rc = auth_find_admin_key(store, now_ms, &arena, &key, e);
    if (rc == ERR_OK)
        *ret = key.id.n > 0;
    return rc;
}

static enum err auth_make_admin(struct store *store, struct str pepper, struct str id, int64_t now_ms,
                                char ret_text[AUTH_KEY_TEXT + 1], struct error *e)
{
    char text[AUTH_KEY_TEXT + 1];
    struct api_key key;
    auth_key_make(pepper, id, TENANT_DEFAULT, S("admin"), S("admin"), now_ms, text, &key);
    struct audit row = audit_by_system("make admin key", "api_key", id, now_ms);
    row.object_name = key.name;
    struct op_key_put put = { .op = { .kind = OP_KEY_PUT, .audit = &row }, .key = &key };
    enum err rc = auth_apply_op(store, &put.op, e);
    if (rc == ERR_OK)
        memcpy(ret_text, text, sizeof text);
    explicit_bzero(text, sizeof text);
    return rc;
}

enum err auth_bootstrap(struct store *store, struct str pepper, int64_t now_ms, char ret_text[AUTH_KEY_TEXT + 1],
                        struct error *e)
{
    struct uuid holder;
    bool found = false, held = false;
    crypto_random(holder.b, sizeof holder.b);
    for (bool is_last = false;;
         is_last = held) { /* the last check is made with the lease held: since then no other node makes a key */
        if (auth_find_admin(store, now_ms, &found, e))
            return e->code;
        if (found || is_last)
            break;
        if (auth_bootstrap_lease(store, holder, now_ms, BOOTSTRAP_MS, &held, e))
            return e->code;
        if (held)
            continue;
        nanosleep(&(struct timespec){ .tv_nsec = BOOTSTRAP_POLL_MS * 1000000L }, NULL);
        now_ms += BOOTSTRAP_POLL_MS;
    }
    struct error ignored; /* the lease expires by itself */
    enum err rc = ERR_OK;
    if (found)
        ret_text[0] = '\0';
    else
        rc = auth_make_admin(store, pepper, S(ADMIN_KEY_ID), now_ms, ret_text, e);
    if (held)
        (void)auth_bootstrap_lease(store, holder, now_ms, 0, &held, &ignored);
    return rc;
}

enum err auth_add_admin(struct store *store, struct str pepper, int64_t now_ms, char ret_text[AUTH_KEY_TEXT + 1],
                        struct error *e)
{
    char id[AUTH_ID + 1];
    auth_id_make(id);
    return auth_make_admin(store, pepper, str_from(id), now_ms, ret_text, e);
}

enum err auth_add_code(struct store *store, struct str pepper, int64_t now_ms, char ret_text[AUTH_KEY_TEXT + 1],
                       struct error *e)
{
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, 4 << 20);
    struct api_key parent, code;
    char id[AUTH_ID + 1];
    ret_text[0] = '\0';
    if (auth_find_admin_key(store, now_ms, &arena, &parent, e))
        return e->code;
    if (!parent.id.n)
        return ERR_OK;
    auth_id_make(id);
    auth_code_make(pepper, str_from(id), &parent, now_ms, ret_text, &code);
    struct audit row = audit_by_system("make login code", "session", str_from(id), now_ms);
    struct op_key_put put = { .op = { .kind = OP_KEY_PUT, .audit = &row }, .key = &code };
    enum err rc = auth_apply_op(store, &put.op, e);
    if (rc)
        ret_text[0] = '\0';
    return rc;
}
