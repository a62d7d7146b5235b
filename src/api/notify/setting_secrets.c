#include "api/notify/setting_secrets.h"

#include "api/server/internal.h"
#include "base/date.h"
#include "port/webhook_signature.h"

enum { SEALED_MAX = 4096 };

#define HIDDEN "***"

/* The channel in the same place of the setting before; NULL: there was none, or one of another kind. */
static struct channel *setting_secrets_before(const struct setting *was, size_t step, int kind, struct channel *copy)
{
    if (!was || (step ? step > was->step_count || was->steps[step - 1].kind != kind : was->kind != kind))
        return NULL;
    *copy = step ? was->steps[step - 1].channel : was->channel;
    return copy;
}

static struct channel *setting_channel_at(struct setting *s, size_t step, int *ret_kind)
{
    *ret_kind = step ? s->steps[step - 1].kind : s->kind;
    return step ? &s->steps[step - 1].channel : &s->channel;
}

static enum err setting_secrets_refuse(size_t step, const char *field, const char *why, struct error *e)
{
    error_field(e, field, "%s", why);
    return error_in(e, step ? "steps" : "delivery_config");
}

/* ---- keeping ---- */

static enum err setting_secrets_keep_one(const struct setting *was, struct setting *next, size_t step, struct error *e)
{
    int kind;
    struct channel copy, *c = setting_channel_at(next, step, &kind);
    struct channel *old = kind < 0 ? NULL : setting_secrets_before(was, step, kind, &copy);
    struct channel_secret v[CHANNEL_SECRETS], before[CHANNEL_SECRETS];
    channel_secrets((enum channel_kind)kind, c, v);
    if (old)
        channel_secrets((enum channel_kind)kind, old, before);
    for (size_t i = 0; i < CHANNEL_SECRETS; i++) {
        bool hidden = str_eq(*v[i].text, S(HIDDEN));
        if (hidden && (!old || !before[i].text->n))
            return setting_secrets_refuse(step, v[i].field,
                                          "is ***, which stands for a value that is not shown; give the value", e);
        if (hidden)
            *v[i].text = *before[i].text;
    }
    if (old && c->token.n && str_eq(c->token, old->token) && !str_eq(c->url, old->url))
        return setting_secrets_refuse(step, "token", "must be given again, or be null, because the url is another one",
                                      e);
    return ERR_OK;
}

enum err setting_secrets_keep(const struct setting *was, struct setting *next, struct error *e)
{
    for (size_t step = 0; step <= next->step_count; step++)
        if (setting_secrets_keep_one(was, next, step, e))
            return e->code;
    return ERR_OK;
}

/* ---- encrypting ---- */

static enum err setting_secrets_seal_text(struct request *q, struct uuid id, const char *field, struct str *text,
                                          struct error *e)
{
    cleanup_with(buf_release) struct buf out;
    const struct secrets *secrets = q->server->setup.secrets;
    buf_init(&out, SEALED_MAX);
    if (!secrets || !text->n)
        return ERR_OK;
    secret_seal(secrets, &(struct secret_place){ q->who.tenant, id, str_from(field) }, *text, &out);
    return !out.full && arena_str(&q->arena, buf_str(&out), text) ? ERR_OK : error_no_room(e);
}

static enum err setting_secrets_seal_one(struct request *q, struct uuid id, const struct setting *was,
                                         struct setting *next, size_t step, struct error *e)
{
    int kind;
    struct channel copy = { 0 }, *c = setting_channel_at(next, step, &kind);
    struct channel *old = setting_secrets_before(was, step, kind, &copy);
    struct channel_secret v[CHANNEL_SECRETS], before[CHANNEL_SECRETS];
    channel_secrets((enum channel_kind)kind, c, v);
    channel_secrets((enum channel_kind)kind, &copy, before);
    bool rotates = old && old->secret.n && c->secret.n && !str_eq(old->secret, c->secret);
    for (size_t i = 0; i < CHANNEL_SECRETS; i++) {
        if (!v[i].text->n || str_eq(*v[i].text, *before[i].text))
            continue;
        if (secret_is_sealed(*v[i].text))
            return setting_secrets_refuse(step, v[i].field,
                                          "must not begin with " SECRET_PREFIX ", which marks an encrypted value", e);
        if (v[i].text == &c->secret && !webhook_secret_is_valid(c->secret))
            return setting_secrets_refuse(step, "secret", "must be whsec_ and base64 of 24 to 64 bytes", e);
        if (setting_secrets_seal_text(q, id, v[i].field, v[i].text, e))
            return e->code;
    }
    if (rotates) {
        c->old_secret = old->secret;
        c->old_until_ms = q->now_ms + DAY_MS;
    }
    return ERR_OK;
}

enum err setting_secrets_seal(struct request *q, struct uuid id, const struct setting *was, struct setting *next,
                              struct error *e)
{
    for (size_t step = 0; step <= next->step_count; step++)
        if (setting_secrets_seal_one(q, id, was, next, step, e))
            return e->code;
    return ERR_OK;
}
