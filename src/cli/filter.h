#pragma once
/* cli/filter.h - task filters as a URL query, from options (--status PAUSED) or from text
 * ("status=PAUSED,queue=mail"). */
#include "base/json/jsonw.h"
#include "base/option/option.h"

/* Filter options of commands that list tasks: --status, --queue, … The first FILTER_OPTION_COUNT are filters of actions
 * (--filter), too. */
enum { FILTER_OPTION_COUNT = 10, FILTER_LIST_COUNT = 13 };
extern const struct option filter_options[FILTER_LIST_COUNT];

/* Appends "?name=value" or "&name=value", percent-encoded. */
void query_add(struct buf *query, const char *name, struct str value);
/* The time of an OPTION_DAY under its own name, of an OPTION_PAST under `name`; nothing if it is not given. */
void query_add_day(struct buf *query, const struct options *o, const char *flag);
void query_add_past(struct buf *query, const struct options *o, const char *flag, const char *name, int64_t now_ms);

/* Appends the filter options that were given. */
void filter_from_options(const struct options *o, struct buf *query);

/* Appends comma-separated name=value pairs; names are those of the options (due-before or due_before). Refuses an
 * unknown name, a name without a value and a repeated name; `field` is the error's field. Several texts may be added
 * to one query. */
enum err filter_parse(struct str text, const char *field, struct buf *query, struct error *e) must_use;

/* Writes the query as a JSON object, for a request body. */
void filter_json(struct str query, struct jw *w);
