/* Notification settings: entries of the catalog, so that every node knows them when a change is answered. */
#include <stdio.h>

#include "api/catalog/catalog_list.h"
#include "api/catalog/catalog_update.h"
#include "api/notify/record_change.h"
#include "api/notify/setting_secrets.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_input.h"
#include "base/json/json.h"
#include "core/target/signing_key.h"

#define WHAT "notification setting"

static void settings_write(struct jw *w, struct str id, const struct setting *s, const struct catalog_entry *entry)
{
    jw_object(w);
    jw_kv_str(w, "id", id);
    setting_write(w, s, true);
    catalog_entry_members(w, entry);
    jw_object_end(w);
}

static enum err settings_read(struct request *q, const struct catalog_entry *entry, struct setting *ret,
                              struct error *e)
{
    return setting_read(entry->doc, &q->arena, ret, NULL)
               ? error_set(e, ERR_CORRUPT, WHAT " '" STR_FMT "' cannot be read", STR_ARG(entry->name))
               : ERR_OK;
}

/* ---- reading ---- */

struct setting_query {
    struct name_page page;
    struct str user_id; /* empty: of any user */
};

/* Of a list, without those of other users. */
static enum err settings_write_entry(struct request *q, struct jw *w, const struct catalog_entry *entry,
                                     struct error *e)
{
    const struct setting_query *p = q->context; /* NULL: not of a list */
    struct setting s;
    if (settings_read(q, entry, &s, e))
        return e->code;
    if (!p || !p->user_id.n || str_eq(p->user_id, s.user_id))
        settings_write(w, entry->name, &s, entry);
    return ERR_OK;
}

enum handled settings_list(struct request *q, struct reader *r)
{
    static const struct query_field fields[] = {
        { "limit", QUERY_I64, offsetof(struct setting_query, page.limit), 1, LIST_MAX, NULL },
        { "cursor", QUERY_TEXT, offsetof(struct setting_query, page.cursor), 0, SEAL_TEXT_MAX, NULL },
        { "user_id", QUERY_TEXT, offsetof(struct setting_query, user_id), 0, SETTING_TEXT_MAX, NULL },
    };
    struct setting_query *p = q->context = arena_new(&q->arena, struct setting_query);
    struct error e = { 0 };
    p->page.limit = LIST_DEFAULT;
    if (query_read(q->query, fields, array_count(fields), p, &q->arena, &e) ||
        seal_open_name(q, p->page.cursor, &p->page.after, &e))
        return request_fail(q, &e);
    return catalog_page_answer(q, r, &p->page, CATALOG_NOTIFICATION, "notification_settings", settings_write_entry);
}

enum handled settings_get(struct request *q, struct reader *r)
{
    return catalog_get_answer(q, r, CATALOG_NOTIFICATION, catalog_id_name(q, q->id), WHAT, settings_write_entry);
}

/* ---- changes ---- */

static enum err settings_check_room(struct request *q, struct reader *r, struct error *e)
{
    struct catalog_entries all;
    if (catalog_read_all(q, r, CATALOG_NOTIFICATION, q->who.tenant, &all, e))
        return e->code;
    return all.n < SETTINGS_MAX
               ? ERR_OK
               : error_set(e, ERR_CONFLICT, "the tenant has %d notification settings already", SETTINGS_MAX);
}

/* A name that the setting has already is not checked: a store may have several of the same name, from a time when that
 * was allowed, or from two requests at the same moment. */
static enum err settings_check_name(struct request *q, struct reader *r, struct str id, struct str name,
                                    struct error *e)
{
    struct setting_names names;
    struct uuid own;
    if (!name.n)
        return ERR_OK;
    if (setting_names_read(q, r, &names, e))
        return e->code;
    for (size_t i = 0; i < names.n; i++) {
        if (!str_eq(names.v[i].name, name) || (uuid_parse(id, &own) && uuid_eq(own, names.v[i].id)))
            continue;
        char text[UUID_TEXT + 1];
        uuid_format(names.v[i].id, text);
        (void)error_field(e, "name", "is that of another setting, %s; choose another one, or change that setting",
                          text);
        return e->code = ERR_CONFLICT;
    }
    return ERR_OK;
}

/* People tell settings apart by these. A text that the setting has already stays. */
static enum err settings_check_hidden(const struct setting *was, const struct setting *next, struct error *e)
{
    const struct {
        const char *field;
        struct str was, next;
    } rows[] = { { "name", was->name, next->name }, { "user_id", was->user_id, next->user_id } };
    for (size_t i = 0; i < array_count(rows); i++)
        if (!str_eq(rows[i].was, rows[i].next) && str_has_hidden(rows[i].next))
            return error_field(e, rows[i].field, "must not hold control characters or others that are not shown");
    return ERR_OK;
}

static bool settings_domain_is_allowed(struct str allowed, struct str address)
{
    struct str domain = str_sub(address, str_find(address, '@', 0) + 1, address.n), word;
    while (str_cut(&allowed, ',', &word)) {
        word = str_trim(word);
        if (str_eq(word, S("*")) || str_eq_nocase(word, domain))
            return true;
    }
    return false;
}

static enum err settings_check_mail(struct request *q, int kind, const struct channel *c, struct error *e)
{
    const struct api_setup *setup = &q->server->setup;
    const struct str *to = c->to.v;
    if (kind != CHANNEL_EMAIL)
        return ERR_OK;
    if (!setup->sends_mail)
        return error_field(e, "delivery_type", "EMAIL needs a mail server: the operator has not set smtp.url");
    for (size_t i = 0; i < c->to.n; i++)
        if (!settings_domain_is_allowed(setup->mail_domains, to[i]))
            return error_field(e, "delivery_config.to", "'" STR_FMT "' is outside notify.email_domains",
                               STR_ARG(to[i]));
    return ERR_OK;
}

/* Looks the name of a signing key up; *ret: its id. */
static enum err settings_find_key(struct request *q, struct reader *r, struct str name, struct str *ret,
                                  struct error *e)
{
    struct catalog_entries all;
    size_t found = 0;
    if (catalog_read_all(q, r, CATALOG_SIGNING_KEY, q->who.tenant, &all, e))
        return e->code;
    for (size_t i = 0; i < all.n; i++) {
        struct signing_key k;
        if (signing_key_read(all.v[i].doc, &q->arena, &k, e))
            return e->code;
        if (str_eq(k.name, name)) {
            *ret = all.v[i].name;
            found++;
        }
    }
    if (found > 1)
        return error_field(e, "delivery_config.signing_key", "%zu signing keys have this name; give the id of one",
                           found);
    return found ? ERR_OK : ERR_NOT_FOUND;
}

/* Who has the secret of one host must not be able to sign messages to another. */
static enum err settings_check_key_host(const struct signing_key *k, struct str url, struct error *e)
{
    char text[TARGET_HOST_MAX];
    struct str host = signing_host_of_url(url, text);
    if (signing_host_fit(k->host, host))
        return ERR_OK;
    return error_field(e, "delivery_config.signing_key",
                       "is a key for " STR_FMT ", but the url is of " STR_FMT
                       "; make a key for this host, or one for all hosts, and give that",
                       STR_ARG(k->host), STR_ARG(host));
}

/* The key must be one of the tenant, for the host of the url. A name becomes the id of the key. A key and a url that
 * the setting has already stay. */
static enum err settings_take_key(struct request *q, struct reader *r, const struct channel *was, struct channel *c,
                                  struct error *e)
{
    struct catalog_entry entry = { 0 };
    struct signing_key k;
    struct uuid id;
    if (!c->signing_key.n)
        return ERR_OK;
    bool is_id = uuid_parse(c->signing_key, &id);
    enum err rc = is_id ? ERR_OK : settings_find_key(q, r, c->signing_key, &c->signing_key, e);
    if (rc == ERR_OK && (is_id || uuid_parse(c->signing_key, &id)))
        rc = reader_catalog_get(r, q->who.tenant, CATALOG_SIGNING_KEY, catalog_id_name(q, id), &q->arena, &entry, e);
    if (rc == ERR_NOT_FOUND)
        return error_field(e, "delivery_config.signing_key", "there is no signing key with this id or name");
    if (rc || signing_key_read(entry.doc, &q->arena, &k, e))
        return e->code;
    bool is_same = was && str_eq(was->url, c->url) && str_eq_nocase(was->signing_key, c->signing_key);
    return is_same ? ERR_OK : settings_check_key_host(&k, c->url, e);
}

/* A change of delivery_type takes no members of the channel before. */
static enum err settings_read_body(struct request *q, struct setting *into, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (request_read_object(q, &doc, e))
        return e->code;
    struct str type = json_text_at(doc.root, "delivery_type");
    if (into->kind >= 0 && type.p && !str_eq(type, str_from(channel_names[into->kind])))
        into->channel = (struct channel){ 0 };
    if (json_at(doc.root, "delivery_config.old_secret") || json_at(doc.root, "delivery_config.old_secret_until"))
        return error_field(e, "delivery_config", "has an unknown field: the old secret is the server's own");
    return setting_read_object(doc.root, &q->arena, into, e);
}

static enum err settings_check(struct request *q, struct reader *r, const struct setting *was, struct setting *s,
                               struct error *e)
{
    if (s->on_alert && q->who.tenant != TENANT_DEFAULT)
        return error_field(e, "on_alert", "is for the tenant default: alerts are about all tenants");
    if (setting_check(s, e) || settings_check_mail(q, s->kind, &s->channel, e) ||
        settings_take_key(q, r, &was->channel, &s->channel, e))
        return e->code;
    for (size_t i = 0; i < s->step_count; i++)
        if (settings_check_mail(q, s->steps[i].kind, &s->steps[i].channel, e) ||
            settings_take_key(q, r, i < was->step_count ? &was->steps[i].channel : NULL, &s->steps[i].channel, e))
            return e->code;
    return ERR_OK;
}

static enum err settings_make(struct request *q, struct reader *r, struct catalog_update *c, struct error *e)
{
    struct setting was = { 0 }, next = setting_default();
    struct uuid id;
    bool is_new = !c->exists;
    if (is_new && q->method != HTTP_POST)
        return catalog_update_not_found(c, e);
    if ((is_new && settings_check_room(q, r, e)) || (!is_new && settings_read(q, &c->current, &was, e)))
        return e->code;
    next = is_new ? next : was;
    if (settings_read_body(q, &next, e) || settings_check_hidden(&was, &next, e) ||
        ((is_new || !str_eq(was.name, next.name)) && settings_check_name(q, r, c->name, next.name, e)) ||
        setting_secrets_keep(is_new ? NULL : &was, &next, e) || settings_check(q, r, &was, &next, e) ||
        !uuid_parse(c->name, &id) || setting_secrets_seal(q, id, is_new ? NULL : &was, &next, e))
        return e->code;
    struct jw w;
    jw_init(&w, c->doc);
    jw_object(&w);
    setting_write(&w, &next, false);
    jw_object_end(&w);
    if (catalog_update_set_doc(q, c, e))
        return e->code;
    w = respond_json(&q->response, is_new ? 201 : 200);
    settings_write(&w, c->name, &next, &c->v[0].entry);
    respond_etag(&q->response, c->v[0].entry.version);
    if (is_new)
        snprintf(q->response.location, sizeof q->response.location, "/v1/notification-settings/" STR_FMT,
                 STR_ARG(c->name));
    return ERR_OK;
}

static enum err settings_make_removed(struct request *q, struct reader *r, struct catalog_update *c, struct error *e)
{
    (void)r;
    if (!c->exists)
        return catalog_update_not_found(c, e);
    c->v[0].remove = true;
    respond_nothing(&q->response);
    return ERR_OK;
}

/* A node of an older version would leave no hits. */
static bool settings_are_known(struct request *q)
{
    const struct api_setup *setup = &q->server->setup;
    if (!setup->notifications_are_known || setup->notifications_are_known(setup->context))
        return true;
    request_refuse(q, PROBLEM_CONFLICT,
                   "a node of an older version is running, which does not know notifications; upgrade it first");
    return false;
}

static enum handled settings_change(struct request *q, struct reader *r, struct uuid id,
                                    enum err (*make)(struct request *, struct reader *, struct catalog_update *,
                                                     struct error *))
{
    if (!request_check_no_query(q) || !settings_are_known(q))
        return HANDLED_DONE;
    struct catalog_update c = { .kind = CATALOG_NOTIFICATION,
                                .tenant = q->who.tenant,
                                .name = catalog_id_name(q, id),
                                .what = WHAT,
                                .make = make };
    return catalog_update_begin(q, r, c);
}

enum handled settings_create(struct request *q, struct reader *r)
{
    return settings_change(q, r, request_new_id(q), settings_make);
}

enum handled settings_patch(struct request *q, struct reader *r)
{
    return settings_change(q, r, q->id, settings_make);
}

enum handled settings_delete(struct request *q, struct reader *r)
{
    return settings_change(q, r, q->id, settings_make_removed);
}
