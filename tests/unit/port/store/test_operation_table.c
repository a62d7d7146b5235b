/* The table of operations against the contracts: a row that was forgotten, or that has drifted, is found here. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "port/store.h"
#include "port/store/operation_table.h"

static const struct {
    const char *name, *verb;
} operations[] = {
#define X(name, verb) { "OP_" #name, #verb },
    OP_MAP(X)
#undef X
};

static const char *const contracts[] = { "tasks",    "claims",    "schedules",    "catalog", "nodes",     "fleet",
                                         "breakers", "retention", "dependencies", "runs",    "incidents", "stats" };

static void read_contract(const char *name, struct buf *out)
{
    const char *root = getenv("BELFRY_SOURCE_ROOT");
    char path[4096], block[4096];
    snprintf(path, sizeof path, "%s/src/port/store/%s.h", root ? root : ".", name);
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("%s cannot be read", path);
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        buf_add(out, (struct str){ block, n });
    fclose(f);
}

/* What stands between the braces of `struct op_VERB`, in all contracts together. */
static struct str members_of(struct str text, const char *verb)
{
    char opening[64];
    snprintf(opening, sizeof opening, "struct op_%s {", verb);
    const char *from = strstr(text.p, opening);
    if (!from)
        fail_msg("no contract has %s}", opening);
    const char *to = strstr(from, "\n};");
    assert_non_null(to);
    return (struct str){ from, (size_t)(to - from) };
}

static void every_operation_has_a_row_of_its_name(void **state)
{
    (void)state;
    assert_int_equal(array_count(operations), OP_KINDS);
    for (size_t i = 0; i < OP_KINDS; i++) {
        if (!op_table[i].name)
            fail_msg("%s has no row", operations[i].name);
        assert_string_equal(op_table[i].name, operations[i].name);
    }
}

static void every_operation_that_carries_an_idempotency_key_says_so(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < array_count(contracts); i++)
        read_contract(contracts[i], &text);
    buf_cstr(&text);
    size_t keys = 0;
    for (size_t i = 0; i < OP_KINDS; i++) {
        struct str members = members_of((struct str){ buf_cstr(&text), text.n }, operations[i].verb);
        bool carries = memmem(members.p, members.n, "const struct idempotency *", 26) != NULL;
        if (carries != (op_table[i].idempotency_at != 0))
            fail_msg("%s: its struct %s an idempotency key, its row says otherwise", operations[i].name,
                     carries ? "carries" : "has not");
        keys += carries;
    }
    assert_true(keys >= 5);
}

static void the_key_is_found_where_the_row_says(void **state)
{
    (void)state;
    struct idempotency key = { .tenant = 1 };
    struct op_key_put put = { .op.kind = OP_KEY_PUT, .idempotency = &key };
    struct op_claimed read = { .op.kind = OP_CLAIMED };
    assert_ptr_equal(op_idempotency(&put.op), &key);
    assert_null(op_idempotency(&read.op));
}

static void an_operation_weighs_the_rows_that_it_may_touch(void **state)
{
    (void)state;
    struct spawn_plan plan = { .occurrences.n = 7 };
    struct op_spawn spawn = { .op.kind = OP_SPAWN, .plan = &plan };
    struct op_claim claim = { .op.kind = OP_CLAIM, .max = 20 };
    struct op_put put = { .op.kind = OP_PUT };
    assert_int_equal(op_weight(&spawn.op), 7);
    assert_int_equal(op_weight(&claim.op), 20);
    assert_int_equal(op_weight(&put.op), 1);
}

static void urgent_routes_carry_front_operations_only(void **state)
{
    (void)state;
    for (size_t i = 0; i < OP_KINDS; i++)
        if (op_table[i].route != OP_VIA_ALL)
            assert_int_equal(op_table[i].urgency, OP_FRONT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_a_row_of_its_name),
        cmocka_unit_test(every_operation_that_carries_an_idempotency_key_says_so),
        cmocka_unit_test(the_key_is_found_where_the_row_says),
        cmocka_unit_test(an_operation_weighs_the_rows_that_it_may_touch),
        cmocka_unit_test(urgent_routes_carry_front_operations_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
