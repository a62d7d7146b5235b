/* Encrypts the secrets of notification settings again, as server_reencryption.c does with those of tasks. */
#include "server/notify/reseal_settings.h"
#include "core/notify/setting.h"

enum { PAGE = 200, SETTINGS_ARENA = 64 << 20, SECRET_TEXT = 4096 };

struct reseal {
    const struct secrets *secrets;
    struct arena *arena;
    void (*found)(void *context, struct str key_id);
    void *context;
};

static struct str reseal_key_of(struct str sealed)
{
    struct str rest = str_sub(sealed, strlen(SECRET_PREFIX), sealed.n);
    return str_sub(rest, 0, str_find(rest, ':', 0));
}

/* One secret; *changed: it is encrypted with the first key now. */
static enum err reseal_text(const struct reseal *r, const struct secret_place *at, struct str *text, bool *changed,
                            struct error *e)
{
    cleanup_with(buf_release) struct buf out;
    struct str plain;
    buf_init(&out, SECRET_TEXT);
    if (!secret_is_sealed(*text))
        return ERR_OK;
    struct str key = reseal_key_of(*text);
    r->found(r->context, key);
    if (str_eq(key, str_from(r->secrets->keys[0].id)))
        return ERR_OK;
    if (secret_open(r->secrets, at, *text, r->arena, &plain, e))
        return e->code;
    secret_seal(r->secrets, at, plain, &out);
    *changed = true;
    return !out.full && arena_str(r->arena, buf_str(&out), text) ? ERR_OK : error_no_room(e);
}

static enum err reseal_channel(const struct reseal *r, int32_t tenant, struct uuid id, int kind, struct channel *c,
                               bool *changed, struct error *e)
{
    struct channel_secret v[CHANNEL_SECRETS];
    channel_secrets((enum channel_kind)kind, c, v);
    for (size_t i = 0; i < CHANNEL_SECRETS; i++) {
        struct secret_place at = { tenant, id, str_from(v[i].field) };
        if (reseal_text(r, &at, v[i].text, changed, e))
            return e->code;
    }
    return ERR_OK;
}

/* The document of an entry with its secrets encrypted by the first key; empty: it stays as it is. */
static enum err reseal_entry(const struct reseal *r, const struct catalog_entry *entry, struct str *ret,
                             struct error *e)
{
    cleanup_with(buf_release) struct buf doc;
    struct setting s;
    struct uuid id;
    struct jw w;
    bool changed = false;
    *ret = (struct str){ 0 };
    buf_init(&doc, CATALOG_DOC_MAX);
    if (!uuid_parse(entry->name, &id) || setting_read(entry->doc, r->arena, &s, NULL))
        return ERR_OK; /* nobody can use it */
    if (reseal_channel(r, entry->tenant, id, s.kind, &s.channel, &changed, e))
        return e->code;
    for (size_t i = 0; i < s.step_count; i++)
        if (reseal_channel(r, entry->tenant, id, s.steps[i].kind, &s.steps[i].channel, &changed, e))
            return e->code;
    if (!changed)
        return ERR_OK;
    jw_init(&w, &doc);
    jw_object(&w);
    setting_write(&w, &s, false);
    jw_object_end(&w);
    return !doc.full && arena_str(r->arena, buf_str(&doc), ret) ? ERR_OK : error_no_room(e);
}

enum err reseal_settings(const struct reseal_setup *setup, int64_t now_ms, struct error *e)
{
    cleanup_with(arena_release) struct arena arena;
    struct catalog_filter f = { .kind = CATALOG_NOTIFICATION, .all_tenants = true, .limit = PAGE };
    struct reseal r = { setup->secrets, &arena, setup->found, setup->context };
    struct catalog_page page = { .more = true };
    arena_init(&arena, SETTINGS_ARENA);
    while (page.more) {
        if (reader_catalog_list(setup->reader, &f, &arena, &page, e))
            return e->code;
        for (size_t i = 0; i < page.entries.n; i++) {
            struct catalog_change c = { .entry = page.entries.v[i], .version = page.entries.v[i].version };
            struct error why = { 0 };
            struct str doc;
            if (reseal_entry(&r, &c.entry, &doc, &why) || !doc.n)
                continue; /* its key is lost, or missing here: it stays */
            c.entry.doc = doc;
            struct op_catalog op = { .op = { .kind = OP_CATALOG }, .v = &c, .n = 1, .now_ms = now_ms };
            enum err rc = setup->apply(setup->context, &op.op, e);
            if (rc && rc != ERR_CONFLICT && rc != ERR_NOT_FOUND) /* somebody changed it: the next walk looks again */
                return rc;
        }
        if (page.entries.n) {
            f.after = page.entries.v[page.entries.n - 1].name;
            f.after_tenant = page.entries.v[page.entries.n - 1].tenant;
        }
    }
    return ERR_OK;
}
