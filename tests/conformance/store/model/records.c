/* What stands besides tasks, made up and compared: dedupe keys, API keys, the catalog, and what is forgotten. */
#include <stdio.h>

#include "store_model.h"

#define differ(...) (snprintf(why, WHY_MAX, __VA_ARGS__), false)

static const char *const dedupe_keys[] = { "order-1", "order-2", "order-3", "order-4" };
static const char *const names[] = { "a", "ab", "b", "c" };
static const char *const docs[] = { "", "{\"state\":\"RUNNING\"}", "{\"state\":\"DONE\"}", "{\"n\":1}" };

static int32_t some_tenant(struct model *m)
{
    return (int32_t)below(m, OTHER_TENANT + 1); /* 0 is Belfry's own */
}

static enum catalog_kind some_kind(struct model *m)
{
    return chance(m, 50) ? CATALOG_JOB : (enum catalog_kind)below(m, CATALOG_KINDS);
}

/* ---- making ---- */

static size_t audit_below(struct model *m, size_t n)
{
    return prng_below(&m->audit_random, n);
}

void model_dedupe(struct model *m, struct task *t)
{
    if (!chance(m, 25))
        return;
    t->dedupe_key = one_of(m, dedupe_keys, array_count(dedupe_keys));
    t->dedupe_window_ms = (int64_t)below(m, 80);
    t->dedupe = chance(m, 50) ? DEDUPE_RETURN : DEDUPE_RESCHEDULE;
}

void model_make_key_put(struct model *m, union any_op *op)
{
    static const char *const ids[] = { "k0", "k1", "k2" };
    struct api_key *k = arena_new(&m->arena, struct api_key);
    *k = (struct api_key){ .id = one_of(m, ids, array_count(ids)),
                           .tenant = chance(m, 50) ? TENANT : OTHER_TENANT,
                           .hash = { (uint8_t)below(m, 256) },
                           .name = one_of(m, names, array_count(names)),
                           .scopes = S("read"),
                           .created_ms = m->now_ms };
    if (k->hash[0] % 4 == 0) { /* a session; some have ended long ago, so that new ones drop them */
        k->parent = S("k0");
        k->expires_ms = k->hash[0] % 8 ? m->now_ms + 1000 : max_of(m->now_ms - 2 * (int64_t)KEY_ENDED_KEPT_MS, 1);
    }
    op->key_put = (struct op_key_put){ .op.kind = OP_KEY_PUT, .key = k, .remove = chance(m, 30), .now_ms = m->now_ms };
}

/* Mostly the version that is there. */
static int64_t some_version(struct model *m, const struct catalog_entry *x)
{
    struct catalog_entry there;
    if (chance(m, 25))
        return (int64_t)below(m, 4) - 1;
    enum err rc = reader_catalog_get(m->reader, x->tenant, x->kind, x->name, &m->arena, &there, NULL);
    return rc == ERR_OK ? there.version : 0;
}

void model_make_catalog(struct model *m, union any_op *op)
{
    size_t n = 1 + below(m, 3);
    struct catalog_change *v = arena_array(&m->arena, struct catalog_change, n);
    for (size_t i = 0; i < n; i++) {
        v[i].entry = (struct catalog_entry){ .tenant = some_tenant(m),
                                             .kind = some_kind(m),
                                             .name = one_of(m, names, array_count(names)),
                                             .doc = one_of(m, docs, array_count(docs)) };
        v[i].version = some_version(m, &v[i].entry);
        v[i].remove = chance(m, 20);
    }
    op->catalog = (struct op_catalog){
        .op.kind = OP_CATALOG, .v = v, .n = n, .now_ms = m->now_ms, .idempotency = model_idempotency(m, 12)
    };
}

void model_make_forget(struct model *m, union any_op *op)
{
    int64_t ago = 100;
#define LIMIT (chance(m, 85) ? m->now_ms - (int64_t)below(m, (size_t)ago) : 0)
    op->forget = (struct op_purge){ .op.kind = OP_PURGE,
                                    .now_ms = m->now_ms + (chance(m, 6) ? 2 * NODE_KEPT_MS : 0),
                                    .idempotency_before_ms = LIMIT,
                                    .tasks_before_ms = LIMIT,
                                    .dlq_before_ms = LIMIT,
                                    .executions_before_ms = LIMIT,
                                    .jobs_before_ms = LIMIT,
                                    .workers_before_ms = LIMIT,
                                    .audit_before_ms = m->now_ms - (int64_t)audit_below(m, 100),
                                    .max = 1000 };
#undef LIMIT
}

const struct audit *model_audit(struct model *m)
{
    static const char *const actions[] = { "POST /v1/tasks", "POST /v1/tasks/{id}/cancel", "DELETE /v1/tasks/{id}" };
    if (audit_below(m, 5))
        return NULL;
    struct audit *row = arena_new(&m->arena, struct audit);
    bool twice = audit_below(m, 10) == 0;
    *row = (struct audit){ .id = twice ? uuid_derived(m->now_ms, S("twice")) : uuid_next(&m->audit_ids, m->now_ms),
                           .tenant = (int32_t)audit_below(m, OTHER_TENANT + 1),
                           .actor = str_from(names[audit_below(m, array_count(names))]),
                           .action = str_from(actions[audit_below(m, array_count(actions))]),
                           .kind = S("task"),
                           .object = str_from(names[audit_below(m, array_count(names))]),
                           .digest = { (uint8_t)audit_below(m, 256) },
                           .count = (int64_t)audit_below(m, 3) };
    row->actor_name = row->count ? row->object : S("");
    row->object_name = row->count == 1 ? row->actor : S("");
    row->details = row->count == 2 ? S("{\"reason\":\"r\"}") : S("");
    row->at_ms = uuid_time_ms(row->id);
    return row;
}

/* ---- comparing ---- */

static bool same_audit(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct audit_filter f = { .tenant = (int32_t)audit_below(m, OTHER_TENANT + 1), .limit = 1 + audit_below(m, 20) };
    if (audit_below(m, 3) == 0)
        f.actor = str_from(names[audit_below(m, array_count(names))]);
    if (audit_below(m, 3) == 0)
        f.action = S("POST /v1/tasks*");
    if (audit_below(m, 3) == 0)
        f.from_ms = m->now_ms - (int64_t)audit_below(m, 100);
    if (audit_below(m, 3) == 0)
        f.to_ms = m->now_ms - (int64_t)audit_below(m, 100);
    struct audit_page p = { 0 }, q = { 0 };
    if (reader_audit(a, &f, &m->arena, &p, NULL) || reader_audit(b, &f, &m->arena, &q, NULL))
        return differ("audit rows failed");
    if (p.n != q.n || p.more != q.more || (p.more && !uuid_eq(p.next_before, q.next_before)))
        return differ("%zu and %zu audit rows", p.n, q.n);
    for (size_t i = 0; i < p.n; i++) {
        const struct audit *x = &p.v[i], *y = &q.v[i];
        if (!uuid_eq(x->id, y->id) || x->tenant != y->tenant || !str_eq(x->actor, y->actor) ||
            !str_eq(x->action, y->action) || !str_eq(x->object, y->object) || !str_eq(x->actor_name, y->actor_name) ||
            !str_eq(x->object_name, y->object_name) || !str_eq(x->details, y->details) ||
            x->digest[0] != y->digest[0] || x->count != y->count || !x->seq || !y->seq)
            return differ("audit row %zu differs", i);
    }
    return true;
}

bool same_catalog_changes(const struct op_catalog *a, const struct op_catalog *b, char why[WHY_MAX])
{
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].ret_version != b->v[i].ret_version || a->v[i].ret_created_ms != b->v[i].ret_created_ms)
            return differ("change %zu of the catalog: version %lld and %lld", i, (long long)a->v[i].ret_version,
                          (long long)b->v[i].ret_version);
    return true;
}

static bool same_entry(const struct catalog_entry *a, const struct catalog_entry *b)
{
    return a->tenant == b->tenant && a->kind == b->kind && a->version == b->version && a->created_ms == b->created_ms &&
           a->updated_ms == b->updated_ms && str_eq(a->name, b->name) && str_eq(a->doc, b->doc);
}

static bool same_catalog(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct catalog_filter f = { .kind = some_kind(m),
                                .all_tenants = chance(m, 50),
                                .tenant = some_tenant(m),
                                .after_tenant = some_tenant(m),
                                .limit = 1 + below(m, 6) };
    if (chance(m, 50))
        f.after = one_of(m, names, array_count(names));
    struct catalog_page p = { 0 }, q = { 0 };
    if (reader_catalog_list(a, &f, &m->arena, &p, NULL) || reader_catalog_list(b, &f, &m->arena, &q, NULL))
        return differ("a list of the catalog failed");
    if (p.entries.n != q.entries.n || p.more != q.more)
        return differ("%zu and %zu entries of the catalog", p.entries.n, q.entries.n);
    for (size_t i = 0; i < p.entries.n; i++)
        if (!same_entry(&p.entries.v[i], &q.entries.v[i]))
            return differ("an entry of the catalog differs");
    struct str name = one_of(m, names, array_count(names));
    struct catalog_entry x, y;
    enum err rc = reader_catalog_get(a, f.tenant, f.kind, name, &m->arena, &x, NULL);
    if (rc != reader_catalog_get(b, f.tenant, f.kind, name, &m->arena, &y, NULL) || (!rc && !same_entry(&x, &y)))
        return differ("an entry of the catalog is got differently");
    return true;
}

static bool same_keys(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    int32_t tenant = chance(m, 50) ? TENANT : OTHER_TENANT;
    struct key_list p = { 0 }, q = { 0 };
    if (reader_keys(a, tenant, &m->arena, &p, NULL) || reader_keys(b, tenant, &m->arena, &q, NULL))
        return differ("a list of keys failed");
    if (p.n != q.n)
        return differ("%zu and %zu keys", p.n, q.n);
    for (size_t i = 0; i < p.n; i++)
        if (!str_eq(p.v[i].id, q.v[i].id) || !str_eq(p.v[i].name, q.v[i].name) ||
            memcmp(p.v[i].hash, q.v[i].hash, 32) != 0)
            return differ("a key of the list differs");
    return true;
}

static bool same_holders(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    for (size_t i = 0; i < array_count(dedupe_keys); i++) {
        int32_t tenant = chance(m, 70) ? TENANT : OTHER_TENANT;
        struct uuid x = { 0 }, y = { 0 };
        enum err rc = reader_dedupe(a, tenant, str_from(dedupe_keys[i]), m->now_ms, &x, NULL);
        if (rc != reader_dedupe(b, tenant, str_from(dedupe_keys[i]), m->now_ms, &y, NULL) || !uuid_eq(x, y))
            return differ("a dedupe key has another holder");
    }
    return true;
}

static bool same_names(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    static const char *const prefixes[] = { "", "r", "report", "clean%", "nothing" };
    int32_t tenant = chance(m, 70) ? TENANT : OTHER_TENANT;
    struct str prefix = one_of(m, prefixes, array_count(prefixes));
    size_t max = 1 + below(m, 4);
    struct task_names p = { 0 }, q = { 0 };
    if (reader_names(a, tenant, prefix, max, &m->arena, &p, NULL) ||
        reader_names(b, tenant, prefix, max, &m->arena, &q, NULL))
        return differ("names failed");
    if (p.n != q.n)
        return differ("%zu and %zu names", p.n, q.n);
    for (size_t i = 0; i < p.n; i++)
        if (!str_eq(p.v[i].name, q.v[i].name) || p.v[i].is_only != q.v[i].is_only ||
            !uuid_eq(p.v[i].newest, q.v[i].newest))
            return differ("name %zu: " STR_FMT " and " STR_FMT, i, STR_ARG(p.v[i].name), STR_ARG(q.v[i].name));
    return true;
}

static bool same_causes(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    int32_t tenant = chance(m, 70) ? TENANT : OTHER_TENANT;
    size_t max = 1 + below(m, 4);
    struct cause_groups p = { 0 }, q = { 0 };
    if (reader_causes(a, tenant, max, &m->arena, &p, NULL) || reader_causes(b, tenant, max, &m->arena, &q, NULL))
        return differ("causes failed");
    if (p.n != q.n)
        return differ("%zu and %zu causes", p.n, q.n);
    for (size_t i = 0; i < p.n; i++) {
        const struct cause_group *x = &p.v[i], *y = &q.v[i];
        if (!str_eq(x->cause, y->cause) || x->count != y->count || x->first_failed_ms != y->first_failed_ms ||
            x->last_failed_ms != y->last_failed_ms || !uuid_eq(x->latest, y->latest) ||
            !str_eq(x->last_error, y->last_error))
            return differ("cause %zu: " STR_FMT " (%lld) and " STR_FMT " (%lld)", i, STR_ARG(x->cause),
                          (long long)x->count, STR_ARG(y->cause), (long long)y->count);
    }
    return true;
}

bool same_other_records(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    return same_catalog(m, a, b, why) && same_keys(m, a, b, why) && same_holders(m, a, b, why) &&
           same_causes(m, a, b, why) && same_names(m, a, b, why) && same_audit(m, a, b, why) &&
           same_folds(m, a, b, why);
}
