#pragma once
/* server/secret_url.h - an address with a password in it: kept out of the list of processes, and shown without it. */
#include "base/option/option.h"

/* What an option says, or the file that it names ("file:/path"); nothing if it is not given. An address on the command line is there for
 * everybody to see: its password is overwritten where it stands. */
enum err secret_url_read(const struct options *o, const char *name, struct buf *ret, struct error *e) must_use;

/* One that stands on the command line, which is ours to write to. */
void secret_url_hide(struct str argument);

void secret_url_show(struct str url, struct buf *out);
