#pragma once
/* cli/filter.h - which tasks are meant: options of a list, or "status=PAUSED,queue=mail", made into a query. */
#include "base/json/jsonw.h"
#include "base/option/option.h"

/* Filters as options, for a command that lists: --status, --queue, … */
enum { FILTER_OPTION_COUNT = 8 };
extern const struct option filter_options[FILTER_OPTION_COUNT];

/* Appends "name=value", what would garble a query written as %XX, with a '?' or '&' in front as it needs. */
void query_add(struct buf *query, const char *name, struct str value);

/* The filter options that were given. */
void filter_from_options(const struct options *o, struct buf *query);

/* Comma-separated name=value, the names being those of the options (due-before or due_before). An unknown name, one without
 * a value and one given twice are refused; field is the error's. Several texts may be added to one query. */
enum err filter_parse(struct str text, const char *field, struct buf *query, struct error *e) must_use;

/* The same filter as an object, for a body. */
void filter_json(struct str query, struct jw *w);
