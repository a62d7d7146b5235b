#include "server/settings/mail_settings.h"

#include <stdio.h>

#include "base/buf.h"
#include "server/settings/options.h"

static bool mail_settings_is_local(struct str url)
{
    static const char *const hosts[] = { "localhost", "127.0.0.1", "[::1]" };
    struct str rest = str_sub(url, str_find(url, '/', 0) + 2, url.n);
    for (size_t i = 0; i < array_count(hosts); i++) {
        struct str host = str_from(hosts[i]);
        bool ends = rest.n == host.n || (rest.n > host.n && (rest.p[host.n] == ':' || rest.p[host.n] == '/'));
        if (str_starts(rest, host) && ends)
            return true;
    }
    return false;
}

static const char *mail_settings_text(const struct options *o, const char *key)
{
    return option_given(o, key) ? option_get(o, key)->text.p : NULL;
}

static enum err mail_settings_read_password(const struct options *o, struct mail_settings *ret, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, MAIL_PASSWORD_MAX - 1);
    if (!option_given(o, "smtp.password"))
        return ERR_OK;
    if (options_read_secret(option_get(o, "smtp.password")->text, "smtp.password", &text, e))
        return e->code;
    snprintf(ret->password, sizeof ret->password, "%s", buf_cstr(&text));
    return ERR_OK;
}

enum err mail_settings_read(const struct options *o, struct mail_settings *ret, struct error *e)
{
    *ret = (struct mail_settings){ .url = mail_settings_text(o, "smtp.url"),
                                   .from = mail_settings_text(o, "smtp.from"),
                                   .user = mail_settings_text(o, "smtp.user"),
                                   .domains = option_get(o, "notify.email_domains")->text,
                                   .heartbeat_url = option_get(o, "notify.heartbeat_url")->text };
    struct str beat = ret->heartbeat_url;
    if (beat.n && !str_starts(beat, S("https://")) && !str_starts(beat, S("http://")))
        return error_field(e, "notify.heartbeat_url", "must start with https:// or http://");
    if (!ret->url)
        return ERR_OK;
    struct str url = str_from(ret->url);
    if ((!str_starts(url, S("smtp://")) && !str_starts(url, S("smtps://"))) || str_find(url, '@', 0) < url.n)
        return error_field(e, "smtp.url", "must be smtp://HOST:PORT or smtps://HOST:PORT, without user and password");
    if (!ret->from || !strchr(ret->from, '@'))
        return error_field(e, "smtp.from", "is required with smtp.url: the address of the sender");
    ret->is_local = mail_settings_is_local(url);
    return mail_settings_read_password(o, ret, e);
}
