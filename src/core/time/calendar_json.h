#pragma once
/* core/time/calendar_json.h - a business calendar as the JSON document of its catalog entry:
 *
 *   {"description": "…", "excluded_weekdays": ["SAT", "SUN"],
 *    "excluded": ["2026-12-24", {"date": "2026-12-25", "name": "Christmas Day"}], "included": […]}
 *
 * Names are for display: they say why a day is not a business day. */
#include "base/arena.h"
#include "base/json/jsonw.h"
#include "core/time/calendar.h"

enum { CALENDAR_TEXT_MAX = 200 };

/* One date of a list, as it was written. */
struct calendar_date {
    int32_t day;
    struct str name; /* empty: none */
};

struct calendar_doc {
    struct str description;
    uint8_t excluded_weekdays; /* as in struct calendar */
    /* sorted, each date once; if a date was given several times, an entry with a name is kept */
    struct calendar_date *excluded, *included;
    size_t excluded_count, included_count;
};

/* Everything lives in the arena. Errors name field and index: excluded[3].date. ERR_LIMIT: the arena is too small. */
enum err calendar_doc_read(struct str text, struct arena *a, struct calendar_doc *ret, struct error *e) must_use;
/* writes the members into an object that is open */
void calendar_doc_write(struct jw *w, const struct calendar_doc *d);
void calendar_head_write(struct jw *w, const struct calendar_doc *d); /* only the members that are not dates */

/* Makes the calendar that the document describes. It borrows name; its dates and their names live in the arena. False:
 * the arena is full. */
bool calendar_of_doc(const struct calendar_doc *d, const char *name, struct arena *a, struct calendar *ret) must_use;
