#pragma once
/* core/task/wire.h - converts a struct to the members of a JSON object and back, by one table for both directions.
 *
 * A member that has its `absent` value is left out, unless `always` is set. A member that is missing or null is read as
 * its `absent` value. Unknown members are ignored, since a later version of Belfry may send more. Input comes from
 * outside: types and bounds are checked, and a violation is ERR_CORRUPT with the member's path in the error's field. */
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "base/rfc3339.h"

enum { WIRE_VERSION = 1 };

/* These bounds keep sums of a few values within 64 bits, in microseconds too. */
#define WIRE_MS_MAX    YEAR_9999_END_MS
#define WIRE_COUNT_MAX 1000000000LL

enum wire_kind {
    WIRE_BOOL,   /* bool */
    WIRE_INT,    /* int or int32_t, within [min, max] */
    WIRE_I64,    /* int64_t, within [min, max] */
    WIRE_ENUM,   /* an enum, by names */
    WIRE_UUID,   /* struct uuid */
    WIRE_TEXT,   /* struct str, at most max bytes (0: any); invalid UTF-8 is replaced by U+FFFD */
    WIRE_JSON,   /* struct str: JSON text, written and read back unchanged except for blanks around it */
    WIRE_OBJECT, /* a nested struct, described by `fields` */
};

struct wire_field {
    const char *name;
    enum wire_kind kind;
    size_t offset;
    int64_t min, max;
    int64_t absent; /* for numbers and enums */
    bool always;
    bool required;            /* must be present, even if the bounds allow its absent value */
    bool optional;            /* for an object: if it is missing, its members are not read at all */
    const char *const *names; /* indexed by value; "" is never read */
    size_t name_count;
    const struct wire_field *fields;
    size_t count;
};

#define WIRE_AT(type, member)     .offset = offsetof(type, member)
#define WIRE_BETWEEN(least, most) .min = (least), .max = (most)
#define WIRE_NAMES(table)         .names = (table), .name_count = array_count(table)
#define WIRE_FIELDS(table)        .fields = (table), .count = array_count(table)

/* Writes an object: "v", then the members. */
void wire_write(struct jw *w, const struct wire_field *fields, size_t count, const void *from);

/* ERR_CORRUPT: not such a message, or of a newer version; ERR_LIMIT: the arena is full. On failure *into is filled in
 * part. */
enum err wire_read(struct arena *a, struct str text, const struct wire_field *fields, size_t count, void *into,
                   struct error *e) must_use;
