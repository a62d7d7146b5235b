#pragma once
/* server/settings/store_url.h - the URL of a PostgreSQL database, which may contain a password
 * (server/settings/secret_url.h). */
#include "base/option/option.h"

/* Reads the option's URL, or the file that it names. Without the option, ret stays empty. Refuses other URLs than
 * postgres://. */
enum err store_url_read(const struct options *o, const char *name, struct buf *ret, struct error *e) must_use;
