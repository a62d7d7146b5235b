#include "server/tls_settings.h"

#include "server/options.h"

enum { NAME_MAX_BYTES = 32 };

static const char field[] = "api.tls.identities";

static enum err tls_settings_read_scopes(struct client_identity *i, struct str words, struct error *e)
{
    struct str word;
    while (str_cut(&words, ' ', &word)) {
        uint32_t scope = scopes_parse(word);
        if (word.n && !scope)
            return error_field(e, field, "of '" STR_FMT "' has the unknown scope '" STR_FMT "'", STR_ARG(i->name),
                               STR_ARG(str_utf8_cut(word, 40)));
        i->scopes |= scope;
    }
    if (!i->scopes)
        return error_field(e, field, "of '" STR_FMT "' has no scope; give at least one, such as tasks:read",
                           STR_ARG(i->name));
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
    *ret = (struct client_identity){ .name = name, .tenant = tenant };
    if (name.n == 0 || name.n > NAME_MAX_BYTES || !tenant.n)
        return error_field(
            e, field,
            "must be lines NAME = CERTIFICATE-NAME TENANT SCOPE…, with a NAME of at most %d bytes, such as "
            "billing = dns:billing.example.com acme tasks:write",
            NAME_MAX_BYTES);
    if (!tls_name_parse(alternate, &ret->alternate))
        return error_field(e, field, "of '" STR_FMT "' must begin with dns:NAME, uri:URI or email:ADDRESS",
                           STR_ARG(name));
    return tls_settings_read_scopes(ret, rest, e);
}

static enum err tls_settings_read_identities(const struct options *o, struct tls_settings *ret, struct error *e)
{
    const struct option_value *v = option_get(o, "tls-identity");
    for (size_t i = 0; i < v->list_count; i++) {
        struct client_identity *made = &ret->identities[ret->identity_count++];
        if (tls_settings_read_identity(v->list[i], made, e))
            return e->code;
        for (size_t k = 0; k < i; k++)
            if (tls_name_equal(&ret->identities[k].alternate, &made->alternate))
                return error_field(e, field, "of '" STR_FMT "' and '" STR_FMT "' name the same certificate",
                                   STR_ARG(ret->identities[k].name), STR_ARG(made->name));
    }
    if (v->list_count && !ret->files.client_ca)
        return error_field(e, field, "requires api.tls.client_ca: the authorities whose certificates are accepted");
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
    if (is_given && tls_files_check(f, now_ms, e))
        return error_in(e, "api.tls");
    return tls_settings_read_identities(o, ret, e);
}

enum err tls_settings_check_listen(const struct options *o, const struct tls_settings *s, struct error *e)
{
    static const char *const names[] = { "listen", "api.admin_listen" }, *const shown[] = { "--listen",
                                                                                            "api.admin_listen" };
    for (size_t i = 0; i < array_count(names) && !s->files.cert && !s->is_plaintext_allowed; i++)
        if (!options_listen_is_loopback(o, names[i]))
            return error_field(
                e, shown[i],
                "%s can be reached from other machines, and API keys would cross the network unencrypted. Make "
                "certificates with 'belfry tls init' and set api.tls.cert and api.tls.key; or, behind a proxy that "
                "speaks TLS, set api.plaintext = true",
                option_get(o, names[i])->text.p);
    return ERR_OK;
}
