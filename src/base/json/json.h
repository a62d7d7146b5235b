#pragma once
/* base/json/json.h - strict reading of JSON input. Writing is in base/json/jsonw.h.
 *
 * Text is parsed into jansson values (UTF-8 is checked, duplicate keys are refused, depth is limited), then read into a
 * C struct by a table of fields. If a field is unknown, has the wrong type, is out of range or occurs twice, the
 * error's field is its path ("retry.rules[2].on"). No other folder includes jansson. */
#include <jansson.h>

#include "base/arena.h"

enum { JSON_DEPTH_MAX = 32, JSON_ANSWER_DEPTH_MAX = 40, JSON_TEXT_MAX = 1 << 28 };

struct json_doc {
    json_t *root;        /* allocated in `memory`; read-only; freed with the document */
    struct str text;     /* borrowed: the source text */
    struct arena memory; /* holds all values; freed at once */
};

/* The whole text must be one JSON value, of any type. The error gives line and column; its field is the path of the
 * value that is wrong. */
enum err json_parse(struct str text, struct json_doc *ret, struct error *e) must_use;

/* The same for responses of a Belfry server, which may nest a few levels deeper than requests. */
enum err json_parse_answer(struct str text, struct json_doc *ret, struct error *e) must_use;
void json_doc_release(struct json_doc *d);

/* The source text of a member of the root object: its value as written, without blanks around it; {NULL, 0} if absent.
 * Payloads are stored as this source text, not as jansson would print it. */
struct str json_member_text(const struct json_doc *d, const char *name);

/* The source texts of all members of an object or all elements of an array, in order. Writes at most max of them to ret
 * and returns how many. text must be valid JSON; a value that is neither object nor array has no parts. */
struct json_part {
    struct str key; /* as written, without quotes; empty for an array element */
    struct str text;
};
size_t json_parts(struct str text, struct json_part *ret, size_t max);
bool json_part_is(const struct json_part *p, const char *name); /* compares the key */

/* Iterates over the source texts of an object's members or an array's elements, in order. The text must be valid JSON.
 *   struct json_cursor c = { .text = array };
 *   while (json_next(&c, &name, &value)) …      name: of a member, as written, without quotes; may be NULL */
struct json_cursor {
    struct str text;
    size_t at;
    bool is_object;
};
bool json_next(struct json_cursor *c, struct str *ret_name, struct str *ret_value);

/* For responses of other servers, where unknown fields are allowed: reads by a path such as "pagination.next_cursor" or
 * "errors[0].field". If the path does not exist or has another type, the result is empty. */
const json_t *json_at(const json_t *root, const char *path);                  /* borrowed; NULL if absent */
struct str json_text_at(const json_t *root, const char *path);                /* borrowed; p is NULL if not a string */
int64_t json_i64_at(const json_t *root, const char *path, int64_t otherwise); /* a fraction is truncated */
int64_t json_seconds_at(const json_t *root, const char *path); /* in milliseconds; 0 if absent or beyond 100 years */
bool json_time_at(const json_t *root, const char *path, int64_t *ret_ms) must_use; /* RFC 3339 text */
size_t json_count_at(const json_t *root, const char *path);                        /* elements of an array */

enum json_kind {
    JSON_KIND_BOOL,     /* bool */
    JSON_KIND_I64,      /* int64_t within [min, max] */
    JSON_KIND_F64,      /* double within [min, max] */
    JSON_KIND_STR,      /* struct str of min to max bytes or characters, without NUL; copied into the arena */
    JSON_KIND_ENUM,     /* int: index into names */
    JSON_KIND_TIME,     /* int64_t: RFC 3339 text to milliseconds */
    JSON_KIND_DURATION, /* int64_t: text such as "15m" to milliseconds, within [min, max] */
    JSON_KIND_SECONDS,  /* int64_t: a number of seconds, rounded to milliseconds; min and max are milliseconds,
                         * and hold before it is rounded */
    JSON_KIND_OBJECT,   /* a struct in place, by `fields` */
    JSON_KIND_ARRAY,    /* struct json_array of elements described by `fields[0]`, min to max of them */
    JSON_KIND_RAW,      /* json_t *, borrowed from the document; null is a value unless `nullable` */
};

struct json_array {
    void *v;
    size_t n;
};

struct json_field {
    const char *name;
    enum json_kind kind;
    size_t offset;                   /* of the value in the struct; 0 for an array's element */
    size_t seen_offset;              /* of a bool that is set to true if the field is present; 0: none */
    int64_t min, max;                /* both 0: the type's own bounds (strings: 64 KiB; arrays: 10,000) */
    const char *const *names;        /* JSON_KIND_ENUM: NULL-terminated, "" never matches */
    const struct json_field *fields; /* JSON_KIND_OBJECT: its table; JSON_KIND_ARRAY: one row, the element */
    size_t count;                    /* rows in fields */
    size_t size;                     /* JSON_KIND_ARRAY: bytes of one element */
    bool characters;                 /* JSON_KIND_STR: min and max count characters, not bytes of UTF-8 */
    bool required;
    bool nullable; /* null counts as absent (but as seen) */
};

/* Reads an object into *into by its table. Absent fields leave *into unchanged, so set the defaults first. After an
 * error, *into holds the fields that were read before it. */
enum err json_read(json_t *object, const struct json_field *fields, size_t count, void *into, struct arena *a,
                   struct error *e) must_use;

/* Writes a value through base/json/jsonw.h. False: the text would be nested more than depth_max levels deep, counted
 * from the writer's top level; what was written so far is of no use. */
struct jw;
bool jw_json(struct jw *w, json_t *v, int depth_max) must_use;
