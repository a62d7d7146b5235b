#include "server/settings/tls_settings.h"

#include <stdio.h>

#include "server/settings/options.h"

enum { NAME_MAX_BYTES = 32, FIELD_TEXT = 96 };

/* "api.tls.identities.billing" */
static const char *tls_settings_field(struct str name, char out[FIELD_TEXT])
{
    snprintf(out, FIELD_TEXT, "api.tls.identities%s" STR_FMT, name.n ? "." : "", STR_ARG(str_utf8_cut(name, 40)));
    return out;
}

static enum err tls_settings_read_scopes(struct client_identity *i, struct str words, struct error *e)
{
    struct str word;
    char field[FIELD_TEXT];
    (void)tls_settings_field(i->name, field);
    while (str_cut(&words, ' ', &word)) {
        uint32_t scope = scopes_parse(word);
        if (word.n && !scope)
            return error_field(e, field, "has the unknown scope '" STR_FMT "'", STR_ARG(str_utf8_cut(word, 40)));
        i->scopes |= scope;
    }
    if (!i->scopes)
        return error_field(e, field, "has no scope; give at least one, such as tasks:read");
    return ERR_OK;
}

/* "billing=dns:billing.example.com acme tasks:read tasks:write" */
static enum err tls_settings_read_identity(struct str given, struct client_identity *ret, struct error *e)
{
    struct str rest = given, name = { 0 }, alternate = { 0 }, tenant = { 0 };
    (void)str_cut(&rest, '=', &name);
    rest = str_trim(rest);
    (void)str_cut(&rest, ' ', &alternate);
    rest = str_trim(rest);
    (void)str_cut(&rest, ' ', &tenant);
    char field[FIELD_TEXT];
    (void)tls_settings_field(name, field);
    *ret = (struct client_identity){ .name = name, .tenant = tenant };
    if (name.n == 0 || name.n > NAME_MAX_BYTES || !tenant.n)
        return error_field(
            e, field,
            "must be a line NAME = CERTIFICATE-NAME TENANT SCOPE…, with a NAME of at most %d bytes, such as "
            "billing = dns:billing.example.com acme tasks:write",
            NAME_MAX_BYTES);
    if (!tls_name_parse(alternate, &ret->alternate))
        return error_field(e, field, "must begin with dns:NAME, uri:URI or email:ADDRESS");
    return tls_settings_read_scopes(ret, rest, e);
}

static enum err tls_settings_check_unique(const struct tls_settings *s, const struct client_identity *made,
                                          struct error *e)
{
    char field[FIELD_TEXT];
    for (const struct client_identity *i = s->identities; i < made; i++)
        if (tls_name_equal(&i->alternate, &made->alternate))
            return error_field(e, tls_settings_field(made->name, field), "names the same certificate as '" STR_FMT "'",
                               STR_ARG(i->name));
    return ERR_OK;
}

static enum err tls_settings_read_identities(const struct options *o, struct tls_settings *ret, struct error *e)
{
    const struct option_value *v = option_get(o, "tls-identity");
    char field[FIELD_TEXT];
    for (size_t i = 0; i < v->list_count; i++) {
        struct client_identity *made = &ret->identities[ret->identity_count];
        bool wrong = tls_settings_read_identity(v->list[i], made, e) || tls_settings_check_unique(ret, made, e);
        if (wrong && options_end_at(o, e))
            return e->code;
        ret->identity_count += !wrong;
    }
    if (v->list_count && !ret->files.client_ca)
        return error_field(e, tls_settings_field(S(""), field),
                           "requires api.tls.client_ca: the authorities whose certificates are accepted");
    return ERR_OK;
}

static const char *tls_settings_path(const struct options *o, const char *flag)
{
    return option_given(o, flag) ? option_get(o, flag)->text.p : NULL;
}

enum err tls_settings_read(const struct options *o, int64_t now_ms, struct tls_settings *ret, struct error *e)
{
    *ret = (struct tls_settings){ .files = { .cert = tls_settings_path(o, "tls-cert"),
                                             .key = tls_settings_path(o, "tls-key"),
                                             .client_ca = tls_settings_path(o, "tls-client-ca"),
                                             .require_client = option_get(o, "tls-require-client")->number },
                                  .is_plaintext_allowed = option_get(o, "plaintext")->number };
    const struct tls_files *f = &ret->files;
    bool is_given = f->cert || f->key || f->client_ca || f->require_client;
    if (is_given && tls_files_check(f, now_ms, e)) {
        (void)error_in(e, "api.tls");
        if (options_end_at(o, e))
            return e->code;
    }
    return tls_settings_read_identities(o, ret, e);
}

enum err tls_settings_check_listen(const struct options *o, const struct tls_settings *s, struct error *e)
{
    static const char *const names[] = { "listen", "api.admin_listen" }, *const shown[] = { "--listen",
                                                                                            "api.admin_listen" };
    for (size_t i = 0; i < array_count(names) && !s->files.cert && !s->is_plaintext_allowed; i++) {
        if (options_listen_is_loopback(o, names[i]))
            continue;
        error_field(e, shown[i],
                    "%s can be reached from other machines, and API keys would cross the network unencrypted. Make "
                    "certificates with 'belfry tls init' and set api.tls.cert and api.tls.key; or, behind a proxy that "
                    "speaks TLS, set api.plaintext = true",
                    option_get(o, names[i])->text.p);
        if (options_end_at(o, e))
            return e->code;
    }
    return ERR_OK;
}
