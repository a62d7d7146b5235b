#pragma once
/* server/settings/secret_url.h - URLs that contain a password: hides the password from the process list and from
 * output. */
#include "base/option/option.h"

/* Reads the option's URL, or the file that it names ("file:/path"). Without the option, ret stays empty. Every user
 * of the machine can read a command line, so a password in it is overwritten in place. */
enum err secret_url_read(const struct options *o, const char *name, struct buf *ret, struct error *e) must_use;

/* Overwrites the password in a command-line argument, in place. */
void secret_url_hide(struct str argument);

void secret_url_show(struct str url, struct buf *out); /* appends the URL with its password masked */
