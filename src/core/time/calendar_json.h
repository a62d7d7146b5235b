#pragma once
/* core/time/calendar_json.h - a business calendar as its catalog entry says:
 *
 *   {"description": "…", "excluded_weekdays": ["SAT", "SUN"],
 *    "excluded": ["2026-12-24", {"date": "2026-12-25", "name": "Christmas Day"}], "included": […]}
 *
 * Names are kept for showing; core/time/calendar.h decides without them. */
#include "base/arena.h"
#include "base/json/jsonw.h"
#include "core/time/calendar.h"

enum { CALENDAR_TEXT_MAX = 200 };

/* A date of a list, as it was written. */
struct calendar_date {
    int32_t day;
    struct str name; /* empty: none */
};

struct calendar_doc {
    struct str description;
    uint8_t excluded_weekdays;                 /* as in struct calendar */
    struct calendar_date *excluded, *included; /* by date, each once; of several of one date one with a name */
    size_t excluded_count, included_count;
};

/* Everything lives in the arena. Errors name field and index: excluded[3].date. ERR_LIMIT: the arena is too small. */
enum err calendar_doc_read(struct str text, struct arena *a, struct calendar_doc *ret, struct error *e) must_use;
void calendar_doc_write(struct jw *w, const struct calendar_doc *d);  /* the members, inside an object that is open */
void calendar_head_write(struct jw *w, const struct calendar_doc *d); /* those of them that are not dates */

/* The calendar that it describes; borrows name, and its dates live in the arena. False: the arena is full. */
bool calendar_of_doc(const struct calendar_doc *d, const char *name, struct arena *a, struct calendar *ret) must_use;

/* What the date is called: "Christmas Day"; empty when it has no name, or is in neither list. */
struct str calendar_date_name(const struct calendar_doc *d, int64_t day);
