#pragma once
/* base/option/option_internal.h - declarations that the files of the option module share. */
#include "base/option/option.h"
#include "base/sentence.h"

/* Checks text against row i and stores it unless a source of higher priority has set the value. name becomes the
 * error's field. The text is borrowed: it must end in NUL and outlive o. */
enum err option_set(struct options *o, size_t i, const char *name, struct str text, enum option_source source,
                    struct error *e) must_use;

/* A row's bounds, or its type's own bounds. */
struct range option_range(const struct option *row);

/* True if the key is a pattern such as "brokers.*". */
bool option_is_family(const struct option *row);
