#pragma once
/* base/option/option_internal.h - what the files of the option module share among themselves. */
#include "base/option/option.h"
#include "base/sentence.h"

/* Judges text by row i and keeps it unless a weightier source has spoken. name is the error's field. text is kept as it
 * is: a NUL stands behind it, and it outlives o. */
enum err option_set(struct options *o, size_t i, const char *name, struct str text, enum option_source source,
                    struct error *e) must_use;

/* A row's bounds, or its type's. */
struct range option_range(const struct option *row);

/* Whether its key stands for many: "brokers.*". */
bool option_is_family(const struct option *row);
