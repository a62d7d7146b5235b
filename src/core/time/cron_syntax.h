#pragma once
/* core/time/cron_syntax.h - a cron expression as it was written, checked but not yet compiled.
 *
 * Internal to cron_parse.c, which creates it, cron.c, which turns it into sets, and cron_describe.c, which describes
 * it. Other modules use core/time/cron.h. */
#include "core/time/cron.h"

enum cron_field_id { CRON_SECOND, CRON_MINUTE, CRON_HOUR, CRON_DAY, CRON_MONTH, CRON_WEEKDAY, CRON_FIELDS };

struct cron_rule {
    const char *name;                             /* as used in errors */
    uint8_t min, max;                             /* of a written number */
    uint8_t end;                                  /* where '*' and a/n end: Saturday, though 7 may be written */
    uint8_t hash_end;                             /* where H ends: every month has that day */
    uint8_t values;                               /* how many values there are */
    const char *const *names, *const *long_names; /* indexed by value from min; NULL: numbers only. Read in any case */
};
extern const struct cron_rule cron_rules[CRON_FIELDS];

enum cron_item_kind {
    CRON_SPAN,            /* values; the other kinds choose days */
    CRON_LAST,            /* L, L-n: `from` days before the last day of the month */
    CRON_LAST_WORKDAY,    /* LW */
    CRON_NEAREST_WORKDAY, /* nW: nearest to day `from` */
    CRON_NTH,             /* d#n: the `nth` weekday `from` */
    CRON_LAST_OF,         /* dL: the last weekday `from` */
};

/* One member of a list. A span starts at `from`; with H it starts at one of `choices` values from there on. It takes
 * every `step`-th value up to `to`; step 0 means that one value only. */
struct cron_item {
    uint8_t kind;
    uint8_t from, to, step, nth;
    uint8_t choices; /* 0: not an H */
    bool bounded;    /* H(a-b) */
};

struct cron_field {
    uint8_t first, count; /* of the items */
    bool any;             /* begins with '*' or is '?': does not restrict the days */
};

struct cron_syntax {
    struct cron_field fields[CRON_FIELDS];
    /* each item takes a character and a separator, except an implied second */
    struct cron_item items[CRON_TEXT_MAX / 2 + 2];
    size_t item_count;
    bool has_seconds;
};

enum err cron_syntax_parse(struct str text, struct cron_syntax *ret, struct error *e) must_use;

/* The values of a span, bit n for value n. H picks by `choice`. Sunday may be 0 or 7. */
uint64_t cron_item_set(const struct cron_item *item, uint64_t choice);

/* Loops over the items of a field: for (each_item(i, syntax, CRON_DAY)) */
#define each_item(i, syntax, id)                                                                                       \
    const struct cron_item *i = cron_items(syntax, id);                                                                \
    i < cron_items(syntax, id) + (syntax)->fields[id].count;                                                           \
    i++

static inline const struct cron_item *cron_items(const struct cron_syntax *syntax, enum cron_field_id id)
{
    return &syntax->items[syntax->fields[id].first];
}
