/* Encrypts the secrets of catalog entries again, as server_reencryption.c does with those of tasks. */
#include "server/reseal_catalog.h"

#include "core/notify/setting.h"
#include "port/signer.h"

enum { PAGE = 200, ENTRIES_ARENA = 64 << 20, SECRET_TEXT = 4096 };

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

/* Writes the document of an entry with its secrets encrypted by the first key; nothing: it stays as it is. */
static enum err reseal_setting(const struct reseal *r, const struct catalog_entry *entry, struct buf *doc,
                               struct error *e)
{
    struct setting s;
    struct uuid id;
    struct jw w;
    bool changed = false;
    if (!uuid_parse(entry->name, &id) || setting_read(entry->doc, r->arena, &s, NULL))
        return ERR_OK; /* nobody can use it */
    if (reseal_channel(r, entry->tenant, id, s.kind, &s.channel, &changed, e))
        return e->code;
    for (size_t i = 0; i < s.step_count; i++)
        if (reseal_channel(r, entry->tenant, id, s.steps[i].kind, &s.steps[i].channel, &changed, e))
            return e->code;
    if (!changed)
        return ERR_OK;
    jw_init(&w, doc);
    jw_object(&w);
    setting_write(&w, &s, false);
    jw_object_end(&w);
    return ERR_OK;
}

static enum err reseal_signing_key(const struct reseal *r, const struct catalog_entry *entry, struct buf *doc,
                                   struct error *e)
{
    struct signing_key k;
    struct error why;
    struct jw w;
    bool changed = false;
    if (signing_key_read(entry->doc, r->arena, &k, &why))
        return ERR_OK; /* nobody can use it */
    struct secret_place at = { entry->tenant, k.id, S(SIGNING_FIELD) };
    for (size_t i = 0; i < k.count; i++)
        if (reseal_text(r, &at, &k.secrets[i].secret, &changed, e))
            return e->code;
    if (!changed)
        return ERR_OK;
    jw_init(&w, doc);
    signing_key_write(&w, &k);
    return ERR_OK;
}

static const struct reseal_kind {
    enum catalog_kind kind;
    enum err (*entry)(const struct reseal *r, const struct catalog_entry *entry, struct buf *doc, struct error *e);
} reseal_kinds[] = {
    { CATALOG_NOTIFICATION, reseal_setting },
    { CATALOG_SIGNING_KEY, reseal_signing_key },
};

static enum err reseal_entry(const struct reseal_setup *setup, const struct reseal *r, const struct reseal_kind *kind,
                             const struct catalog_entry *entry, int64_t now_ms, struct error *e)
{
    cleanup_with(buf_release) struct buf doc;
    struct catalog_change c = { .entry = *entry, .version = entry->version };
    struct op_catalog op = { .op = { .kind = OP_CATALOG }, .v = &c, .n = 1, .now_ms = now_ms };
    struct error why = { 0 };
    buf_init(&doc, CATALOG_DOC_MAX);
    if (kind->entry(r, entry, &doc, &why) || !doc.n || doc.full)
        return ERR_OK; /* its key is lost, or missing here: it stays */
    c.entry.doc = buf_str(&doc);
    enum err rc = setup->apply(setup->context, &op.op, e);
    return rc == ERR_CONFLICT || rc == ERR_NOT_FOUND ? ERR_OK : rc; /* somebody changed it: the next walk looks again */
}

static enum err reseal_walk(const struct reseal_setup *setup, const struct reseal_kind *kind, int64_t now_ms,
                            struct error *e)
{
    cleanup_with(arena_release) struct arena arena;
    struct catalog_filter f = { .kind = kind->kind, .all_tenants = true, .limit = PAGE };
    struct reseal r = { setup->secrets, &arena, setup->found, setup->context };
    struct catalog_page page = { .more = true };
    arena_init(&arena, ENTRIES_ARENA);
    while (page.more) {
        if (reader_catalog_list(setup->reader, &f, &arena, &page, e))
            return e->code;
        for (size_t i = 0; i < page.entries.n; i++)
            if (reseal_entry(setup, &r, kind, &page.entries.v[i], now_ms, e))
                return e->code;
        if (page.entries.n) {
            f.after = page.entries.v[page.entries.n - 1].name;
            f.after_tenant = page.entries.v[page.entries.n - 1].tenant;
        }
    }
    return ERR_OK;
}

enum err reseal_catalog(const struct reseal_setup *setup, int64_t now_ms, struct error *e)
{
    for (size_t i = 0; i < array_count(reseal_kinds); i++)
        if (reseal_walk(setup, &reseal_kinds[i], now_ms, e))
            return e->code;
    return ERR_OK;
}
