#include "cli/workflow/graph_text.h"

#include "check.h"

#define STEP(name, ...) "{\"name\":\"" name "\",\"target_type\":\"NOOP\"" __VA_ARGS__ "}"
#define AFTER(...)      ",\"depends_on\":[" __VA_ARGS__ "]"

struct drawn {
    struct dag *d;
    struct arena a;
    struct graph g;
    struct buf out;
};

static void drawn_read(struct drawn *x, const char *steps)
{
    struct error e;
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_printf(&text, "{\"steps\":[%s]}", steps);
    x->d = NULL;
    assert_ok(dag_read(buf_str(&text), &x->d, &e), &e);
    arena_init(&x->a, GRAPH_MEMORY_MAX);
    buf_init(&x->out, 1 << 20);
    assert_ok(workflow_graph_of(x->d, &x->a, &x->g, &e), &e);
    buf_release(&text);
}

static void drawn_release(struct drawn *x)
{
    buf_release(&x->out);
    arena_release(&x->a);
    dag_free(x->d);
}

static void check_text(const char *steps, size_t width, const char *expected)
{
    struct drawn x;
    struct error e;
    drawn_read(&x, steps);
    assert_ok(workflow_graph_text(&x.g, width, false, &x.a, &x.out, &e), &e);
    assert_string_equal(buf_cstr(&x.out), expected);
    drawn_release(&x);
}

static const char diamond[] = STEP("start") "," STEP("a", AFTER("\"start\"")) "," STEP("b", AFTER("\"start\"")) "," //
    STEP("end", AFTER("\"a\",\"b\""));

static void a_diamond_is_drawn_as_boxes(void **state)
{
    (void)state;
    check_text(diamond, 80,
               "  ┌───────┐\n"
               "  │ start │\n"
               "  └───┬───┘\n"
               "  ┌───┴──┐\n"
               "  ▼      ▼\n"
               "┌───┐  ┌───┐\n"
               "│ a │  │ b │\n"
               "└─┬─┘  └─┬─┘\n"
               "  └───┬──┘\n"
               "      ▼\n"
               "   ┌─────┐\n"
               "   │ end │\n"
               "   └─────┘\n");
}

static void a_chain_is_straight_and_an_edge_over_layers_passes_beside_it(void **state)
{
    (void)state;
    check_text(STEP("a") "," STEP("b", AFTER("\"a\"")), 80,
               "┌───┐\n"
               "│ a │\n"
               "└─┬─┘\n"
               "  ▼\n"
               "┌───┐\n"
               "│ b │\n"
               "└───┘\n");
    check_text(STEP("a") "," STEP("b", AFTER("\"a\"")) "," STEP("c", AFTER("\"a\",\"b\"")), 80,
               "   ┌───┐\n"
               "   │ a │\n"
               "   └─┬─┘\n"
               "  ┌──┴─┐\n"
               "  ▼    │\n"
               "┌───┐  │\n"
               "│ b │  │\n"
               "└─┬─┘  │\n"
               "  └──┬─┘\n"
               "     ▼\n"
               "   ┌───┐\n"
               "   │ c │\n"
               "   └───┘\n");
}

static void what_is_too_wide_is_a_tree(void **state)
{
    (void)state;
    check_text(diamond, 8,
               "start\n"
               "├─ a\n"
               "│  ↓ end  ↳ also after b\n"
               "└─ b\n");
}

static void types_and_kinds_are_told(void **state)
{
    (void)state;
    check_text(
        STEP("a") ",{\"name\":\"b\",\"await\":{\"signal\":\"ok\"}" AFTER("{\"step\":\"a\",\"type\":\"MUST_FAIL\"}") "}",
        4, "a\n↓ b (await ok)\n\nb needs a MUST_FAIL\n");
}

static void dot_and_mermaid_have_every_edge(void **state)
{
    (void)state;
    struct drawn x;
    drawn_read(&x, STEP("a") "," STEP("b", AFTER("\"a\",{\"step\":\"a\",\"type\":\"MUST_FINISH\"}")));
    x.g.v[0].status = S("COMPLETED");
    x.g.v[1].name = S("b\"<x>");
    workflow_graph_dot(&x.g, &x.out);
    assert_string_equal(buf_cstr(&x.out), "digraph workflow {\n"
                                          "  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n"
                                          "  s0 [label=\"a\", fillcolor=\"#c8e6c9\"];\n"
                                          "  s1 [label=\"b\\\"<x>\"];\n"
                                          "  s0 -> s1;\n"
                                          "  s0 -> s1 [style=dotted, label=\"finish\"];\n"
                                          "}\n");
    buf_reset(&x.out);
    workflow_graph_mermaid(&x.g, &x.out);
    assert_string_equal(buf_cstr(&x.out), "flowchart TD\n"
                                          "  s0[\"a\"]\n"
                                          "  style s0 fill:#c8e6c9\n"
                                          "  s1[\"b#34;#60;x#62;\"]\n"
                                          "  s0 --> s1\n"
                                          "  s0 -. finish .-> s1\n");
    drawn_release(&x);
}

/* Any graph is drawn: each step occurs, and no line is wider than was asked for, unless it is a tree. */
static void every_random_graph_is_drawn(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < 300; round++) {
        struct graph_step steps[30] = { 0 };
        struct graph_edge edges[30][30];
        char names[30][8];
        struct graph g = { .v = steps, .n = 1 + (uint32_t)round % 30 };
        struct arena a;
        struct buf out;
        struct error e;
        arena_init(&a, GRAPH_MEMORY_MAX);
        buf_init(&out, 1 << 20);
        for (uint32_t i = 0; i < g.n; i++) {
            snprintf(names[i], sizeof names[i], "n%u", i);
            steps[i] = (struct graph_step){ .name = str_from(names[i]), .in = edges[i], .status = S("RUNNING") };
            for (uint32_t k = 0; k < i; k++) {
                seed = seed * 1664525 + 1013904223;
                if ((seed >> 16) % 100 < 150 / g.n)
                    edges[i][steps[i].n++] = (struct graph_edge){ k, DAG_MUST_SUCCEED };
            }
        }
        assert_ok(workflow_graph_layer(&g, &a, &e), &e);
        assert_ok(workflow_graph_text(&g, 200, round % 2, &a, &out, &e), &e);
        for (uint32_t i = 0; i < g.n; i++)
            assert_non_null(strstr(buf_cstr(&out), names[i]));
        buf_release(&out);
        arena_release(&a);
    }
}

static void a_circle_has_no_layers(void **state)
{
    (void)state;
    struct graph_edge after_0 = { 0, DAG_MUST_SUCCEED }, after_1 = { 1, DAG_MUST_SUCCEED };
    struct graph_step steps[] = { { .name = S("a"), .in = &after_1, .n = 1 },
                                  { .name = S("b"), .in = &after_0, .n = 1 } };
    struct graph g = { .v = steps, .n = 2 };
    struct arena a;
    struct error e;
    arena_init(&a, GRAPH_MEMORY_MAX);
    assert_int_equal(workflow_graph_layer(&g, &a, &e), ERR_INVALID);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_diamond_is_drawn_as_boxes),
        cmocka_unit_test(a_chain_is_straight_and_an_edge_over_layers_passes_beside_it),
        cmocka_unit_test(what_is_too_wide_is_a_tree),
        cmocka_unit_test(types_and_kinds_are_told),
        cmocka_unit_test(dot_and_mermaid_have_every_edge),
        cmocka_unit_test(every_random_graph_is_drawn),
        cmocka_unit_test(a_circle_has_no_layers),
    };
    return cmocka_run_group_tests_name("workflow_graph", tests, NULL, NULL);
}
