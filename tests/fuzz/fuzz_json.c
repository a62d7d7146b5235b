/* JSON bodies. A text that parses must print through the writer as text that parses to the same value; every member's
 * text must be its value; reading by a table must end in a value or an error sentence. The fast parser accepts exactly
 * what jansson accepts. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json/json.h"
#include "base/json/json_build.h"
#include "base/json/jsonw.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Recursion is bounded by JSON_DEPTH_MAX. */
static void print(struct jw *w, json_t *v) // NOLINT(misc-no-recursion)
{
    const char *key;
    size_t i;
    json_t *member;
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        jw_object(w);
        json_object_foreach (v, key, member) {
            jw_key(w, key);
            print(w, member);
        }
        jw_object_end(w);
        break;
    case JSON_ARRAY:
        jw_array(w);
        json_array_foreach (v, i, member)
            print(w, member);
        jw_array_end(w);
        break;
    case JSON_STRING: jw_str(w, (struct str){ json_string_value(v), json_string_length(v) }); break;
    case JSON_INTEGER: jw_i64(w, json_integer_value(v)); break;
    case JSON_REAL: jw_f64(w, json_real_value(v)); break;
    case JSON_TRUE:
    case JSON_FALSE: jw_bool(w, json_is_true(v)); break;
    case JSON_NULL: jw_null(w); break;
    }
}

/* A real that is printed without a point comes back as an integer, so the results of a second printing are compared. */
static void print_and_parse_again(json_t *v)
{
    struct buf first, second;
    struct jw w;
    struct json_doc again;
    buf_init(&first, 1 << 24);
    buf_init(&second, 1 << 24);
    jw_init(&w, &first);
    print(&w, v);
    check(json_parse(buf_str(&first), &again, NULL) == ERR_OK);
    jw_init(&w, &second);
    print(&w, again.root);
    check(str_eq(buf_str(&first), buf_str(&second)) || strstr(buf_cstr(&first), "-0"));
    json_doc_release(&again);
    buf_release(&first);
    buf_release(&second);
}

static void compare_members(const struct json_doc *d)
{
    const char *key;
    json_t *member;
    json_object_foreach (d->root, key, member) {
        struct str text = json_member_text(d, key);
        struct json_doc part;
        check(text.p && json_parse(text, &part, NULL) == ERR_OK);
        check(json_equal(part.root, member));
        json_doc_release(&part);
    }
    check(json_object_get(d->root, "absent") || !json_member_text(d, "absent").p);
    struct json_part parts[64];
    size_t n = json_parts(d->text, parts, array_count(parts));
    check(n == min_of(json_object_size(d->root) + json_array_size(d->root), array_count(parts)));
    for (size_t i = 0; i < n; i++) {
        struct json_doc part;
        check(json_parse(parts[i].text, &part, NULL) == ERR_OK);
        if (json_is_array(d->root))
            check(json_equal(part.root, json_array_get(d->root, i)));
        else
            check(json_part_is(&parts[i], "") || str_eq(json_member_text(d, "x"), parts[i].text) ||
                  !json_part_is(&parts[i], "x"));
        json_doc_release(&part);
    }
}

struct inner {
    struct json_array on;
    int64_t wait_ms;
};

struct all {
    bool yes, seen;
    int64_t count, any, at_ms, wait_ms;
    double ratio;
    struct str name;
    int color;
    struct inner one;
    struct json_array many;
    json_t *raw;
};

static const struct json_field element = { .kind = JSON_KIND_STR, .min = 1, .max = 8, .nullable = true };
static const struct json_field inner_fields[] = {
    { .name = "on",
      .kind = JSON_KIND_ARRAY,
      .offset = offsetof(struct inner, on),
      .fields = &element,
      .count = 1,
      .size = sizeof(struct str) },
    { .name = "w", .kind = JSON_KIND_DURATION, .offset = offsetof(struct inner, wait_ms), .required = true },
};
static const struct json_field inner_field = { .kind = JSON_KIND_OBJECT, .fields = inner_fields, .count = 2 };
static const char *const colors[] = { "RED", "", "BLUE", NULL };
#define AT(member) .offset = offsetof(struct all, member)
static const struct json_field fields[] = {
    { .name = "b", .kind = JSON_KIND_BOOL, AT(yes) },
    { .name = "n",
      .kind = JSON_KIND_I64,
      AT(count),
      .seen_offset = offsetof(struct all, seen),
      .min = 1,
      .max = 10,
      .nullable = true },
    { .name = "i", .kind = JSON_KIND_I64, AT(any) },
    { .name = "f", .kind = JSON_KIND_F64, AT(ratio), .min = -1, .max = 1 },
    { .name = "s", .kind = JSON_KIND_STR, AT(name) },
    { .name = "e", .kind = JSON_KIND_ENUM, AT(color), .names = colors },
    { .name = "t", .kind = JSON_KIND_TIME, AT(at_ms) },
    { .name = "d", .kind = JSON_KIND_DURATION, AT(wait_ms), .min = 1000, .max = 60000 },
    { .name = "o", .kind = JSON_KIND_OBJECT, AT(one), .fields = inner_fields, .count = 2 },
    { .name = "a",
      .kind = JSON_KIND_ARRAY,
      AT(many),
      .fields = &inner_field,
      .count = 1,
      .size = sizeof(struct inner),
      .max = 4 },
    { .name = "r", .kind = JSON_KIND_RAW, AT(raw) },
};

static void read_by_table(json_t *v)
{
    struct arena a;
    struct all into = { 0 };
    struct error e = { 0 };
    arena_init(&a, 4096);
    if (json_read(v, fields, array_count(fields), &into, &a, &e))
        check(e.code != ERR_OK && e.text[0]);
    else
        check((into.count == 0 || (into.count >= 1 && into.count <= 10)) && into.many.n <= 4 && into.color != 1);
    arena_release(&a);
}

/* Only a number with more digits than a double can have may be left to jansson. */
static void compare_with_jansson(struct str text, bool is_json)
{
    enum { LONG_NUMBER = 400 };
    struct arena a;
    arena_init(&a, 1 << 24);
    json_t *built = json_build(text, JSON_DEPTH_MAX, &a);
    json_t *judge = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    check(!built || (judge && json_equal(built, judge)));
    check(built || !is_json || text.n > LONG_NUMBER);
    json_decref(built);
    json_decref(judge);
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = { (const char *)data, size };
    bool readable = str_is_utf8(text) && str_find(text, '\0', 0) == text.n;
    struct json_doc d;
    struct error e = { 0 };
    if (json_parse(text, &d, &e)) {
        check(e.code != ERR_OK && e.text[0]);
        if (readable)
            compare_with_jansson(text, false);
        return 0;
    }
    compare_with_jansson(text, true);
    print_and_parse_again(d.root);
    compare_members(&d);
    read_by_table(d.root);
    json_doc_release(&d);
    return 0;
}
