#pragma once
/* base/json/jsonw.h - a JSON writer over a buffer; keeps the order of members and uses no library.
 *
 *   struct jw w; jw_init(&w, &buf);
 *   jw_object(&w);
 *   jw_kv_str(&w, "name", name);
 *   jw_key(&w, "tags"); jw_array(&w); jw_str(&w, tag); jw_array_end(&w);
 *   jw_object_end(&w);
 *
 * The writer adds commas and checks nesting by assertions. If the text is too long, the buffer's `full` is set. */
#include "base/buf.h"
#include "base/uuid.h"

enum { JW_DEPTH_MAX = 63 };

struct jw {
    struct buf *b;
    uint64_t has_member; /* bit d: depth d has a member already */
    uint64_t is_object;  /* bit d: depth d is an object */
    int depth;           /* 0: top level, where one value may stand */
    bool key_open;
};

void jw_init(struct jw *w, struct buf *b);
void jw_object(struct jw *w);
void jw_object_end(struct jw *w);
void jw_array(struct jw *w);
void jw_array_end(struct jw *w);
void jw_key(struct jw *w, const char *name);
void jw_str(struct jw *w, struct str v); /* bytes that are not UTF-8 become U+FFFD */
void jw_i64(struct jw *w, int64_t v);
void jw_u64(struct jw *w, uint64_t v);
void jw_f64(struct jw *w,
            double v); /* the shortest text that parses to the same value; NaN and infinities become null */
void jw_bool(struct jw *w, bool v);
void jw_null(struct jw *w);
void jw_time(struct jw *w, int64_t ms);  /* RFC 3339 */
void jw_raw(struct jw *w, struct str v); /* one value that is JSON already */

/* "key": value in one call. */
void jw_kv_str(struct jw *w, const char *name, struct str v);
void jw_kv_cstr(struct jw *w, const char *name, const char *v); /* NULL becomes null */
void jw_kv_i64(struct jw *w, const char *name, int64_t v);
void jw_seconds(struct jw *w, int64_t ms);                      /* given in milliseconds */
void jw_kv_seconds(struct jw *w, const char *name, int64_t ms); /* 1500 becomes 1.5, 2000 becomes 2 */
void jw_kv_bool(struct jw *w, const char *name, bool v);
void jw_kv_time(struct jw *w, const char *name, int64_t ms);
void jw_kv_i64_or_null(struct jw *w, const char *name, int64_t v); /* 0 becomes null */
void jw_kv_time_or_null(struct jw *w, const char *name, int64_t ms);
void jw_kv_str_or_null(struct jw *w, const char *name, struct str v); /* an empty string becomes null */
void jw_kv_uuid(struct jw *w, const char *name, struct uuid id);      /* the nil UUID becomes null */

/* Appends v as the content of a JSON string, without the quotes. */
void json_escape(struct buf *b, struct str v);
