#pragma once
/* cli/store_url.h - the address of a database, which has a password in it: kept out of the list of processes, and shown without it. */
#include "base/option.h"

/* What an option says, or the file that it names ("file:/path"); nothing if it is not given. An address on the command line is there for
 * everybody to see: its password is overwritten where it stands. Refuses what is no postgres:// URL. */
enum err store_url_read(const struct options *o, const char *name, struct buf *ret, struct error *e) must_use;

void store_url_show(struct str url, struct buf *out);
