#pragma once
/* server/store_url.h - the address of a database, which has a password in it (server/secret_url.h). */
#include "base/option/option.h"

/* What an option says, or the file that it names; nothing if it is not given. Refuses what is no postgres:// URL. */
enum err store_url_read(const struct options *o, const char *name, struct buf *ret, struct error *e) must_use;
