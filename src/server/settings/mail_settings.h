#pragma once
/* server/settings/mail_settings.h - what the operator sets for notifications: the mail server (smtp.url, smtp.from,
 * smtp.user, smtp.password), notify.email_domains and notify.heartbeat_url. */
#include "base/option/option.h"

enum { MAIL_PASSWORD_MAX = 4096 };

struct mail_settings {
    const char *url; /* NULL: no mail is sent. Texts are borrowed from the options */
    const char *from, *user;
    char password[MAIL_PASSWORD_MAX];
    struct str domains;
    struct str heartbeat_url; /* empty: none */
    bool is_local;            /* the server is on this machine: TLS is not required */
};

enum err mail_settings_read(const struct options *o, struct mail_settings *ret, struct error *e) must_use;
