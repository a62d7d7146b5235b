/* The query of a request. An accepted value is within its bounds and is UTF-8. An error has a sentence and a field
 * without unprintable bytes. */
#include <stdlib.h>

#include "api/server/query.h"
#include "base/uuid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct params {
    int64_t limit, due_ms;
    struct str name;
    int kind;
    unsigned states, results;
    struct uuid cursor;
};

static const char *const kinds[] = { "ONE_TIME", "RECURRING", NULL };
static const struct query_field fields[] = {
    { .name = "limit", .kind = QUERY_I64, .offset = offsetof(struct params, limit), .min = 1, .max = 1000 },
    { .name = "name", .kind = QUERY_TEXT, .offset = offsetof(struct params, name), .max = 40 },
    { .name = "due", .kind = QUERY_TIME, .offset = offsetof(struct params, due_ms) },
    { .name = "cursor", .kind = QUERY_ID, .offset = offsetof(struct params, cursor) },
    { .name = "type", .kind = QUERY_CHOICE, .offset = offsetof(struct params, kind), .names = kinds },
    { .name = "status", .kind = QUERY_STATES, .offset = offsetof(struct params, states) },
    { .name = "results", .kind = QUERY_RESULTS, .offset = offsetof(struct params, results) },
};

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void require_sentence(const struct error *e)
{
    require(e->text[0] && str_is_utf8(str_from(e->text)) && str_is_utf8(str_from(e->field)));
    for (const char *p = e->text; *p; p++)
        require((unsigned char)*p >= ' ' && *p != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = { (const char *)data, size }, decoded;
    struct error e = { 0 };
    struct arena a;
    arena_init(&a, 1 << 20);
    struct params p = { .limit = 20 };
    enum err rc = query_read(text, fields, array_count(fields), &p, &a, &e);
    if (rc)
        require_sentence(&e);
    else
        require(p.limit >= 1 && p.limit <= 1000 && p.kind >= 0 && p.kind <= 2 && p.states < 512 && p.results < 8 &&
                (!p.name.n || (str_is_utf8(p.name) && str_utf8_count(p.name) <= 40)));
    if (url_decode(text, false, &a, &decoded, &e) == ERR_OK)
        require(decoded.n <= size && str_is_utf8(decoded) && !memchr(decoded.p, 0, decoded.n));
    arena_release(&a);
    return 0;
}
