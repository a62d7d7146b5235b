#pragma once
/* base/json/json.h - the one door for JSON that comes in, and a strict one. The way out is base/json/jsonw.h.
 *
 * Text becomes jansson's values (UTF-8 checked, duplicate keys refused, depth capped), then is read into a C struct by a
 * table of fields. An unknown field, a wrong type, a value out of range and a duplicate key each name the field's path
 * ("retry.rules[2].on") in the error's field. */
#include <jansson.h>

#include "base/arena.h"

enum { JSON_DEPTH_MAX = 32, JSON_ANSWER_DEPTH_MAX = 40, JSON_TEXT_MAX = 1 << 28 };

struct json_doc {
    json_t *root;        /* lives in memory: it may be read, not changed, and ends with the document */
    struct str text;     /* borrowed: what was parsed */
    struct arena memory; /* of all its values: given back at once */
};

/* The whole text must be one value, of any type. What is wrong with it is said with its line and column, and with the path
 * of the value it was found in as the error's field. */
enum err json_parse(struct str text, struct json_doc *ret, struct error *e) must_use;

/* The same for what a server of ours answers: what was given to it may stand a few levels deeper there. */
enum err json_parse_answer(struct str text, struct json_doc *ret, struct error *e) must_use;
void json_doc_release(struct json_doc *d);

/* The source text of a member of the root object (its value, as it was written, blanks around it cut off); {NULL, 0} when
 * there is none. Payloads are stored as the text that came, not as jansson would print it. */
struct str json_member_text(const struct json_doc *d, const char *name);

/* The same for all members of an object or elements of an array, in one walk and in their order: at most max of them go to
 * ret, and how many did is returned. text must be JSON that was parsed; any other value has no parts. */
struct json_part {
    struct str key; /* as it was written, without its quotes; of an element empty */
    struct str text;
};
size_t json_parts(struct str text, struct json_part *ret, size_t max);
bool json_part_is(const struct json_part *p, const char *name); /* by key */

/* The source texts of an object's members or an array's elements, one a call, in order. The text must be one that parsed.
 *   struct json_cursor c = { .text = array };
 *   while (json_next(&c, &name, &value)) …      name: of a member, as it was written, without quotes; may be NULL */
struct json_cursor {
    struct str text;
    size_t at;
    bool is_object;
};
bool json_next(struct json_cursor *c, struct str *ret_name, struct str *ret_value);

/* For what others answer, where more than we know of is fine: by a path such as "pagination.next_cursor" or "errors[0].field".
 * What is not there, or is of another type, reads as nothing. */
const json_t *json_at(const json_t *root, const char *path);                       /* borrowed; NULL: not there */
struct str json_text_at(const json_t *root, const char *path);                     /* borrowed; p NULL: no string */
int64_t json_i64_at(const json_t *root, const char *path, int64_t otherwise);      /* a fraction is cut off */
bool json_time_at(const json_t *root, const char *path, int64_t *ret_ms) must_use; /* RFC 3339 text */
size_t json_count_at(const json_t *root, const char *path);                        /* elements of an array */

enum json_kind {
    JSON_KIND_BOOL,     /* bool */
    JSON_KIND_I64,      /* int64_t within [min, max] */
    JSON_KIND_F64,      /* double within [min, max] */
    JSON_KIND_STR,      /* struct str, min to max bytes, no NUL among them; copied into the arena */
    JSON_KIND_ENUM,     /* int: index into names */
    JSON_KIND_TIME,     /* int64_t: RFC 3339 text to milliseconds */
    JSON_KIND_DURATION, /* int64_t: text such as "15m" to milliseconds, within [min, max] */
    JSON_KIND_OBJECT,   /* a struct in place, by `fields` */
    JSON_KIND_ARRAY,    /* struct json_array of elements described by `fields[0]`, min to max of them */
    JSON_KIND_RAW,      /* json_t *, borrowed from the document; null is a value like any other unless nullable */
};

struct json_array {
    void *v;
    size_t n;
};

struct json_field {
    const char *name;
    enum json_kind kind;
    size_t offset;                   /* of the value in the struct; an array's element description has offset 0 */
    size_t seen_offset;              /* of a bool set to true when the field was there; 0: nobody asks */
    int64_t min, max;                /* both 0: no bounds but the type's own (strings: 64 KiB; arrays: 10,000) */
    const char *const *names;        /* JSON_KIND_ENUM: NULL-terminated, "" never matches */
    const struct json_field *fields; /* JSON_KIND_OBJECT: its table; JSON_KIND_ARRAY: one row, the element */
    size_t count;                    /* rows in fields */
    size_t size;                     /* JSON_KIND_ARRAY: bytes of one element */
    bool required;
    bool nullable; /* null is the same as absent (but seen) */
};

/* Reads an object into *into by its table. Fields that are absent leave *into as it was: fill in defaults first. After an
 * error *into holds what was read before it. */
enum err json_read(json_t *object, const struct json_field *fields, size_t count, void *into, struct arena *a,
                   struct error *e) must_use;
