#pragma once
/* core/task/wire.h - a struct as the members of a JSON object, there and back, by one table: what is written is what is read.
 *
 * A member that has its `absent` value is left out, unless it stands `always`; one that is missing, or null, reads as that value. Members that
 * the table does not name are passed over: a later Belfry may send more. What is read comes from outside: its types and bounds are checked, and
 * what breaks them is ERR_CORRUPT, with the member's path as the error's field. */
#include "base/json/json.h"
#include "base/json/jsonw.h"

enum { WIRE_VERSION = 1 };

/* Bounds that keep sums of a few of them within 64 bits, and microseconds too. */
#define WIRE_MS_MAX    253402300799999LL /* the last of the year 9999 */
#define WIRE_COUNT_MAX 1000000000LL

enum wire_kind {
    WIRE_BOOL,   /* bool */
    WIRE_INT,    /* int or int32_t, within [min, max] */
    WIRE_I64,    /* int64_t, within [min, max] */
    WIRE_ENUM,   /* an enum, by names */
    WIRE_UUID,   /* struct uuid */
    WIRE_TEXT,   /* struct str, at most max bytes (0: any); what is not UTF-8 in it becomes U+FFFD */
    WIRE_JSON,   /* struct str: JSON text, written and read back as it is, blanks around it aside */
    WIRE_OBJECT, /* a struct in place, by `fields` */
};

struct wire_field {
    const char *name;
    enum wire_kind kind;
    size_t offset;
    int64_t min, max;
    int64_t absent; /* of numbers and enums */
    bool always;
    bool required;            /* must be there, also where no bounds say so */
    bool optional;            /* of an object: if it is missing, none of its members is */
    const char *const *names; /* by value; "" is none that is read */
    size_t name_count;
    const struct wire_field *fields;
    size_t count;
};

#define WIRE_AT(type, member)     .offset = offsetof(type, member)
#define WIRE_BETWEEN(least, most) .min = (least), .max = (most)
#define WIRE_NAMES(table)         .names = (table), .name_count = array_count(table)
#define WIRE_FIELDS(table)        .fields = (table), .count = array_count(table)

/* An object: "v", then the members. */
void wire_write(struct jw *w, const struct wire_field *fields, size_t count, const void *from);

/* ERR_CORRUPT: no such message, or of a newer version; ERR_LIMIT: the arena is full. *into is what was read so far then. */
enum err wire_read(struct arena *a, struct str text, const struct wire_field *fields, size_t count, void *into,
                   struct error *e) must_use;
