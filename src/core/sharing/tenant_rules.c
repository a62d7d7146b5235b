/* "No limit" is 0 in the struct and null in the document. A 0 in the document is read as no limit, too. */
#include "core/sharing/tenant_rules.h"

#include "base/json/json.h"

enum { NAME_MAX = 128 };
#define COUNT_MAX 1000000000000LL

struct tenant_rules_json {
    int64_t number;
    struct tenant_rules rules;
};

/* clang-format off */
#define AT(member) .offset = offsetof(struct tenant_rules_json, member)
static const struct json_field fields[] = {
    { .name = "number", .kind = JSON_KIND_I64, AT(number), .min = 1, .max = INT32_MAX, .required = true },
    { .name = "name", .kind = JSON_KIND_STR, AT(rules.name), .min = 1, .max = NAME_MAX, .required = true },
    { .name = "max_running", .kind = JSON_KIND_I64, AT(rules.max_running), .max = COUNT_MAX, .nullable = true },
    { .name = "max_pending", .kind = JSON_KIND_I64, AT(rules.max_pending), .max = COUNT_MAX, .nullable = true },
    { .name = "max_recurring", .kind = JSON_KIND_I64, AT(rules.max_recurring), .max = COUNT_MAX, .nullable = true },
    { .name = "creates_per_second", .kind = JSON_KIND_I64, AT(rules.creates_per_second), .max = COUNT_MAX, .nullable = true },
    { .name = "payload_bytes", .kind = JSON_KIND_I64, AT(rules.payload_bytes), .max = COUNT_MAX, .nullable = true },
    { .name = "disabled", .kind = JSON_KIND_BOOL, AT(rules.disabled), .nullable = true },
};
/* clang-format on */

enum err tenant_rules_read(struct str doc, struct arena *a, struct tenant_rules *ret, struct error *e)
{
    struct error own; /* so that e may be NULL */
    e = e ? e : &own;
    cleanup_with(json_doc_release) struct json_doc json = { 0 };
    struct tenant_rules_json d = { 0 };
    if (json_parse(doc, &json, e) || json_read(json.root, fields, array_count(fields), &d, a, e))
        return e->code;
    if (!str_is_plain(d.rules.name, "._-"))
        return error_field(e, "name", "must hold letters, digits, '.', '_' and '-' only");
    d.rules.number = (int32_t)d.number;
    *ret = d.rules;
    return ERR_OK;
}

void tenant_rules_write(struct jw *w, const struct tenant_rules *r)
{
    jw_kv_i64(w, "number", r->number);
    jw_kv_str(w, "name", r->name);
    jw_kv_i64_or_null(w, "max_running", r->max_running);
    jw_kv_i64_or_null(w, "max_pending", r->max_pending);
    jw_kv_i64_or_null(w, "max_recurring", r->max_recurring);
    jw_kv_i64_or_null(w, "creates_per_second", r->creates_per_second);
    jw_kv_i64_or_null(w, "payload_bytes", r->payload_bytes);
    jw_kv_bool(w, "disabled", r->disabled);
}
