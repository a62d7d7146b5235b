/* The memory store is the model: store_model [adapter] tells both the same, at random, and compares every answer.
 * That the comparison can fail is shown by planting bugs into the second. BELFRY_SEED=n runs from another seed. */
#include <stdio.h>
#include <stdlib.h>

#include "seed.h"
#include "store_model.h"

enum { BATCH_MAX = 6, SEEDS = 6, STEPS = 600 };

static void model_init(struct model *m, uint64_t seed, struct reader *reader)
{
    *m = (struct model){ .reader = reader, .now_ms = NOW };
    prng_init(&m->random, seed);
    uuid_gen_init(&m->ids, seed);
    arena_init(&m->arena, 1 << 28);
    for (size_t i = 0; i < NODES; i++)
        m->nodes[i] = uuid_next(&m->ids, NOW);
}

/* The same operation over again; results that lie among its arguments are its own. */
static union any_op twin_of(struct model *m, const union any_op *op)
{
    union any_op twin = *op;
    if (op->op.kind == OP_SETTLE) {
        size_t size = op->settle.n * sizeof *op->settle.v;
        twin.settle.v = memcpy(arena_alloc(&m->arena, size), op->settle.v, size);
    }
    return twin;
}

static void count_result(struct tally *t, const union any_op *op)
{
    if (op->op.rc) {
        t->refused[op->op.kind]++;
        return;
    }
    t->done[op->op.kind]++;
    if (op->op.kind == OP_CLAIM)
        t->claimed += op->claim.ret.n;
    for (size_t i = 0; op->op.kind == OP_SETTLE && i < op->settle.n; i++)
        op->settle.v[i].stale ? t->stale++ : t->settled++;
    if (op->op.kind == OP_PUT)
        t->withdrawn += op->put.ret_withdrawn;
    if (op->op.kind == OP_FORGET)
        t->forgotten += op->forget.ret_forgotten;
    if (op->op.kind == OP_LEASE)
        t->leases_lost += !op->lease.ret_held;
}

static void print_tally(const struct tally *t)
{
    printf("# done/refused:");
    for (size_t i = 0; i < array_count(t->done); i++)
        printf(" %d/%d", t->done[i], t->refused[i]);
    printf("; %zu claimed, %zu settled, %zu stale, %zu withdrawn, %zu forgotten, %zu leases lost\n", t->claimed,
           t->settled, t->stale, t->withdrawn, t->forgotten, t->leases_lost);
}

/* One batch for both. */
static bool step_agrees(struct model *m, struct store *a, struct store *b, char why[WHY_MAX])
{
    union any_op x[BATCH_MAX], y[BATCH_MAX];
    struct op *xs[BATCH_MAX], *ys[BATCH_MAX];
    size_t n = 1 + below(m, BATCH_MAX);
    for (size_t i = 0; i < n; i++) {
        m->first = i == 0;
        memset(&x[i], 0, sizeof x[i]);
        model_make(m, &x[i]);
        y[i] = twin_of(m, &x[i]);
        arena_init(&x[i].op.arena, 1 << 26);
        arena_init(&y[i].op.arena, 1 << 26);
        xs[i] = &x[i].op;
        ys[i] = &y[i].op;
    }
    struct error e = { 0 };
    bool same = store_apply(a, xs, n, &e) == ERR_OK && store_apply(b, ys, n, &e) == ERR_OK;
    if (!same)
        snprintf(why, WHY_MAX, "apply: %.200s", e.text);
    for (size_t i = 0; i < n; i++) {
        same = same && same_results(&x[i], &y[i], why);
        count_result(&m->tally, &x[i]);
        arena_release(&x[i].op.arena);
        arena_release(&y[i].op.arena);
    }
    return same;
}

/* Whether two empty stores stay alike over so many batches; if not, why. */
static bool stores_agree(struct store *a, struct store *b, uint64_t seed, int steps, struct tally *ret,
                         char why[WHY_MAX])
{
    struct reader *p, *q;
    struct model m;
    struct error e = { 0 };
    char what[WHY_MAX] = "";
    bool same = true;
    assert_ok(store_reader(a, &p, &e), &e);
    assert_ok(store_reader(b, &q, &e), &e);
    model_init(&m, seed, p);
    for (int step = 0; step < steps && same; step++) {
        same = step_agrees(&m, a, b, what) && same_reads(&m, p, q, what);
        snprintf(why, WHY_MAX, "seed %llu, step %d: %.200s", (unsigned long long)seed, step, what);
        m.now_ms += (int64_t)below(&m, 12);
        arena_reset(&m.arena);
    }
    *ret = m.tally;
    arena_release(&m.arena);
    reader_free(p);
    reader_free(q);
    return same;
}

static void random_sequences_of_operations_give_equal_answers(void **state)
{
    (void)state;
    struct prng seeds = seeded_prng("store_model");
    int rounds = getenv("BELFRY_TEST_LONG") ? SEEDS * 3 : SEEDS;
    for (int i = 0; i < rounds; i++) {
        void *world;
        struct tally tally;
        char why[WHY_MAX];
        struct store *model = store_memory_new();
        world_open(&world);
        if (!stores_agree(model, ((struct world *)world)->store, prng_u64(&seeds), STEPS, &tally, why))
            fail_msg("%s", why);
        print_tally(&tally);
        assert_true(tally.claimed > 300 && tally.settled > 300 && tally.stale > 100 && tally.withdrawn > 10 &&
                    tally.forgotten > 100 && tally.leases_lost > 10);
        assert_true(tally.refused[OP_INSERT] > 20 && tally.refused[OP_SPAWN] > 20 && tally.refused[OP_PUT] > 20);
        world_close(&world);
        store_free(model);
    }
}

/* ---- planted bugs ---- */

/* Spoils an operation on its way in; true: it does not even arrive. */
typedef bool spoil_fn(struct op *op, struct prng *random);

struct faulty {
    struct store base;
    struct store *inner;
    spoil_fn *spoil;
    struct prng random;
};

static bool drops_one_settle_in_a_hundred(struct op *op, struct prng *random)
{
    return op->kind == OP_SETTLE && prng_below(random, 100) == 0;
}

static bool keeps_no_idempotency_record(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_INSERT)
        container_of(op, struct op_insert, op)->idempotency = NULL;
    return false;
}

static bool withdraws_nothing(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_PUT)
        container_of(op, struct op_put, op)->withdraw = false;
    return false;
}

static bool claims_a_millisecond_early(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_CLAIM)
        container_of(op, struct op_claim, op)->until_ms++;
    return false;
}

static bool loses_one_insert_in_a_hundred(struct op *op, struct prng *random)
{
    return op->kind == OP_INSERT && prng_below(random, 100) == 0;
}

static bool forgets_too_much(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_FORGET)
        container_of(op, struct op_forget, op)->tasks_before_ms += 5;
    return false;
}

static bool keeps_a_lease_too_long(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_LEASE)
        container_of(op, struct op_lease, op)->ttl_ms += 10;
    return false;
}

static bool skips_the_guard_of_a_put(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_PUT)
        container_of(op, struct op_put, op)->version = container_of(op, struct op_put, op)->task->version - 1;
    return false;
}

static enum err faulty_apply(struct store *base, struct op *const *ops, size_t n, struct error *e)
{
    struct faulty *f = container_of(base, struct faulty, base);
    struct op *through[BATCH_MAX];
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        ops[i]->rc = ERR_OK;
        if (!f->spoil(ops[i], &f->random))
            through[count++] = ops[i];
    }
    return count ? store_apply(f->inner, through, count, e) : ERR_OK;
}

static enum err faulty_reader(struct store *base, struct reader **ret, struct error *e)
{
    return store_reader(container_of(base, struct faulty, base)->inner, ret, e);
}

static void planted_bugs_are_noticed(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        spoil_fn *spoil;
    } bugs[] = {
#define BUG(f) { #f, f }
        BUG(drops_one_settle_in_a_hundred), BUG(keeps_no_idempotency_record),   BUG(withdraws_nothing),
        BUG(claims_a_millisecond_early),    BUG(loses_one_insert_in_a_hundred), BUG(forgets_too_much),
        BUG(keeps_a_lease_too_long),        BUG(skips_the_guard_of_a_put),
#undef BUG
    };
    static const struct store_ops ops = { faulty_apply, faulty_reader, NULL };
    struct prng seeds = seeded_prng("planted_bugs");
    for (size_t i = 0; i < array_count(bugs); i++) {
        char why[WHY_MAX];
        struct tally tally;
        struct store *model = store_memory_new();
        struct faulty f = { { &ops }, store_memory_new(), bugs[i].spoil, seeds };
        if (stores_agree(model, &f.base, prng_u64(&seeds), STEPS, &tally, why))
            fail_msg("a store that %s passes for a sound one", bugs[i].name);
        printf("# %s: %s\n", bugs[i].name, why);
        store_free(f.inner);
        store_free(model);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sequences_of_operations_give_equal_answers),
        cmocka_unit_test(planted_bugs_are_noticed),
    };
    adapter_under_test = store_adapter_of(argc, argv);
    if (!adapter_under_test) {
        fprintf(stderr, "%s is no store that was built\n", argv[1]);
        return 2;
    }
    return cmocka_run_group_tests_name(adapter_under_test->name, tests, NULL, NULL);
}
