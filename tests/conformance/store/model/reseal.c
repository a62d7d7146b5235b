/* OP_RESEAL made up, and what is read for it compared. */
#include <stdio.h>
#include <stdlib.h>

#include "store_model.h"

#define differ(...)    (snprintf(why, WHY_MAX, __VA_ARGS__), false)
#define SEALED_BY(key) "{\"headers\":{\"Cookie\":\"enc:1:" key ":AAAA\"}}"

enum { RESEALED = 4 };

static const char *const configs[] = { SEALED_BY("aaaaaaaa"), SEALED_BY("bbbbbbbb"), "{\"url\":\"http://b.example\"}" };

static int reseal_by_id(const void *a, const void *b)
{
    return uuid_cmp(((const struct resealed *)a)->id, ((const struct resealed *)b)->id);
}

/* Some tasks, once each, by id; now and then with a configuration that they do not have. */
static size_t reseal_some_tasks(struct model *m, struct resealed *v)
{
    size_t n = 0, kept = 0, wanted = below(m, RESEALED + 1);
    for (struct task t; n < wanted && model_look(m, &t); n++) {
        bool knows = t.target_config.n && chance(m, 80);
        v[n] = (struct resealed){ t.id, knows ? t.target_config : S("{}"), one_of(m, configs, array_count(configs)) };
    }
    qsort(v, n, sizeof *v, reseal_by_id);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || !uuid_eq(v[kept - 1].id, v[i].id))
            v[kept++] = v[i];
    return kept;
}

void model_make_reseal(struct model *m, union any_op *ret)
{
    struct resealed *v = arena_array(&m->arena, struct resealed, RESEALED);
    struct resealed_definition *d = arena_array(&m->arena, struct resealed_definition, 1);
    struct definition *there = arena_array(&m->arena, struct definition, 1);
    *there = *model_definition(m, chance(m, 70) ? TENANT : OTHER_TENANT);
    struct str text;
    if (chance(m, 80) && !reader_definition(m->reader, there->tenant, there->hash, &m->arena, &text, NULL))
        there->text = text;
    *d = (struct resealed_definition){ there, one_of(m, configs, array_count(configs)) };
    ret->reseal = (struct op_reseal){
        .op.kind = OP_RESEAL, .v = v, .n = reseal_some_tasks(m, v), .definitions = d, .definition_count = chance(m, 50)
    };
}

/* ---- comparing ---- */

static bool same_sealed_tasks(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct sealed_page p, q;
    struct task after = { 0 };
    size_t max = 1 + below(m, 30);
    if (chance(m, 50))
        (void)model_look(m, &after);
    if (reader_sealed_page(a, S("bbbbbbbb"), after.id, max, &m->arena, &p, NULL) ||
        reader_sealed_page(b, S("bbbbbbbb"), after.id, max, &m->arena, &q, NULL))
        return differ("tasks with secrets failed");
    if (p.tasks.n != q.tasks.n || p.more != q.more || (p.more && !uuid_eq(p.next_after, q.next_after)))
        return differ("%zu and %zu tasks with secrets", p.tasks.n, q.tasks.n);
    for (size_t i = 0; i < p.tasks.n; i++)
        if (!uuid_eq(p.tasks.v[i].id, q.tasks.v[i].id) || p.tasks.v[i].state != q.tasks.v[i].state ||
            !str_eq(p.tasks.v[i].target_config, q.tasks.v[i].target_config))
            return differ("a task with secrets differs");
    return true;
}

static bool same_sealed_definitions(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct definition_page p, q;
    struct definition after = chance(m, 50) ? (struct definition){ 0 } : *model_definition(m, TENANT);
    size_t max = 1 + below(m, 5);
    bool x, y;
    if (reader_definitions(a, &after, max, &m->arena, &p, NULL) ||
        reader_definitions(b, &after, max, &m->arena, &q, NULL))
        return differ("definitions failed");
    if (p.n != q.n || p.more != q.more)
        return differ("%zu and %zu definitions", p.n, q.n);
    for (size_t i = 0; i < p.n; i++)
        if (definition_cmp(&p.v[i], &q.v[i]) != 0 || !str_eq(p.v[i].text, q.v[i].text))
            return differ("definition %zu differs", i);
    struct str key = chance(m, 50) ? S("aaaaaaaa") : S("");
    if (reader_sealed(a, key, &x, NULL) || reader_sealed(b, key, &y, NULL) || x != y)
        return differ("whether a key is needed");
    return true;
}

bool same_sealed(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    return same_sealed_tasks(m, a, b, why) && same_sealed_definitions(m, a, b, why);
}
