#include "check.h"

#include "core/task/trace.h"

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static void only_valid_parents_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool valid;
    } rows[] = {
        { PARENT, true },
        { "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", true },
        { "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", true },
        { "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true },       /* a later version */
        { "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what", true },  /* which has more */
        { "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what", false }, /* but not so */
        { "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what", false },
        { "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false },
        { "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false },
        { "00-00000000000000000000000000000000-00f067aa0ba902b7-01", false },
        { "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false },
        { "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x", false },
        { "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", false },
        { "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false },
        { PARENT ", " PARENT, false },
        { "", false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct trace t;
        if (trace_parse(str_from(rows[i].text), &t) != rows[i].valid)
            fail_msg("%s", rows[i].text);
    }
}

static struct task kept(struct arena *a, const char *parent, const char *tracestate, const char *request)
{
    struct task t = { .id = { { 1, 2, 3 } } };
    assert_true(trace_keep(str_from(parent), str_from(tracestate), str_from(request), a, &t.trace));
    return t;
}

static void a_task_continues_the_trace_of_its_caller(void **state)
{
    (void)state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 4096);
    struct task t = kept(&a, PARENT, "vendor=a b,other=c", "req-7");
    struct trace trace = trace_of(&t);
    assert_string_equal(trace.id, "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_string_equal(trace.span, "00f067aa0ba902b7");
    assert_true(trace.sampled);
    assert_str(trace.request, "req-7");
    assert_str(trace.state, "vendor=a b,other=c");
    char parent[TRACE_PARENT + 1];
    trace_parent(&trace, 0xabc, parent);
    assert_string_equal(parent, "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000abc-01");
    t = kept(&a, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", "", "");
    trace = trace_of(&t);
    trace_parent(&trace, 0, parent); /* no span is all zeros */
    assert_string_equal(parent, "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-00");
    assert_int_equal(trace.request.n + trace.state.n, 0);
}

static void the_settling_node_needs_no_state(void **state)
{
    (void)state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 4096);
    struct task t = kept(&a, PARENT, "vendor=a b,other=c", "req-7");
    assert_str(trace_without_state(t.trace), PARENT " req-7");
    assert_str(trace_without_state(kept(&a, PARENT, "", "").trace), PARENT " -");
    assert_str(trace_without_state(kept(&a, "", "", "req-7").trace), "- req-7");
    assert_int_equal(trace_without_state(S("")).n, 0);
    struct trace trace = trace_read(trace_without_state(t.trace), t.kind, t.id, t.run);
    assert_string_equal(trace.span, "00f067aa0ba902b7");
    assert_str(trace.request, "req-7");
    assert_int_equal(trace.state.n, 0);
}

static void an_occurrence_is_linked_to_the_caller(void **state)
{
    (void)state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 4096);
    struct task t = kept(&a, PARENT, "", "req-7");
    t.kind = TASK_OCCURRENCE;
    struct trace trace = trace_of(&t), own = trace_new(t.id);
    assert_string_equal(trace.id, own.id);
    assert_true(trace.span[0] == '\0' && trace.sampled);
    assert_string_equal(trace.linked_id, "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_string_equal(trace.linked_span, "00f067aa0ba902b7");
    assert_str(trace.request, "req-7");
    struct task step = { .id = { { 9 } }, .run = t.id, .trace = trace_for_steps(&t) };
    assert_string_equal(trace_of(&step).id, own.id); /* in the trace of its run */
    t.kind = TASK_ONE_TIME;
    step.trace = trace_for_steps(&t);
    assert_string_equal(trace_of(&step).id, trace_of(&t).id);
    assert_true(trace_span_parse("00f067aa0ba902b7") == 0xf067aa0ba902b7 && trace_span_parse("") == 0);
}

static void each_attempt_has_a_span_and_each_call_another(void **state)
{
    (void)state;
    struct uuid id = { { 1 } }, other = { { 2 } };
    char text[TRACE_SPAN + 1];
    uint64_t run = trace_span(id, 1, TRACE_RUN);
    assert_true(run == trace_span(id, 1, TRACE_RUN) && run != trace_span(id, 2, TRACE_RUN));
    assert_true(run != trace_span(id, 1, TRACE_CALL) && run != trace_span(other, 1, TRACE_RUN));
    trace_span_text(0xabc, text);
    assert_string_equal(text, "0000000000000abc");
}

static void what_is_not_valid_is_left_out(void **state)
{
    (void)state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 4096);
    struct task t = kept(&a, "nonsense", "vendor=a", "req-7");
    struct trace trace = trace_of(&t);
    assert_int_equal(trace.span[0], 0);
    assert_str(trace.request, "req-7");
    assert_int_equal(trace.state.n, 0); /* of a trace that is not continued */
    assert_int_equal(kept(&a, "nonsense", "", "two words").trace.n, 0);
    char long_state[TRACE_STATE_MAX + 2];
    memset(long_state, 'x', sizeof long_state - 1);
    long_state[sizeof long_state - 1] = '\0';
    t = kept(&a, PARENT, long_state, "a\tb");
    trace = trace_of(&t);
    assert_int_equal(trace.state.n + trace.request.n, 0);
}

static void other_tasks_have_a_trace_of_their_own(void **state)
{
    (void)state;
    struct task a = { .id = { { 1 } } }, b = { .id = { { 2 } } };
    struct task step = { .id = { { 3 } }, .run = a.id };
    struct trace of_a = trace_of(&a), of_b = trace_of(&b), again = trace_of(&a), of_step = trace_of(&step);
    assert_string_equal(of_a.id, again.id);
    assert_string_not_equal(of_a.id, of_b.id);
    assert_string_equal(of_a.id, of_step.id);
    struct trace parsed;
    char parent[TRACE_PARENT + 1];
    trace_parent(&of_a, 5, parent);
    assert_true(trace_parse(str_from(parent), &parsed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_valid_parents_are_taken),
        cmocka_unit_test(a_task_continues_the_trace_of_its_caller),
        cmocka_unit_test(the_settling_node_needs_no_state),
        cmocka_unit_test(an_occurrence_is_linked_to_the_caller),
        cmocka_unit_test(each_attempt_has_a_span_and_each_call_another),
        cmocka_unit_test(what_is_not_valid_is_left_out),
        cmocka_unit_test(other_tasks_have_a_trace_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
