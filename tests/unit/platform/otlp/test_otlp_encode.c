/* The bytes of OTLP, and the settings that say where they go. tests/e2e/operations/test_traces.py decodes them with a decoder of
 * its own. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "platform/otlp/otlp_encode.h"
#include "platform/otlp/otlp_settings.h"

static void assert_bytes(const struct buf *b, const char *hex)
{
    char text[2048];
    assert_false(b->full);
    assert_true(2 * b->n < sizeof text);
    for (size_t i = 0; i < b->n; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)b->p[i]);
    text[2 * b->n] = '\0';
    assert_string_equal(text, hex);
}

static struct span span_of(void)
{
    struct trace t;
    assert_true(trace_parse(S("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), &t));
    return (struct span){
        .trace = t, .id = 0x0102030405060708, .kind = SPAN_CONSUMER, .name = S("run"), .start_us = 1, .end_us = 2
    };
}

#define IDS   "0a104bf92f3577b34da6a3ce929d0e0e473612080102030405060708"
#define RUN   "2a0372756e"
#define TIMES "39e80300000000000041d007000000000000"
#define FLAGS "850101000000"

static void a_span_has_ids_name_kind_and_times(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, OTLP_SPAN_MAX);
    struct span s = span_of();
    otlp_add_span(&b, &s);
    assert_bytes(&b, IDS RUN "3005" TIMES FLAGS);
}

static void a_span_has_parent_attributes_link_and_status(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, OTLP_SPAN_MAX);
    struct span s = span_of();
    struct span_attribute a[] = { { .key = "q", .text = S("mail") }, { .key = "n", .number = 300 } };
    s.parent = 0xff;
    s.trace.state = S("v=1");
    memcpy(s.trace.linked_id, s.trace.id, sizeof s.trace.id);
    memcpy(s.trace.linked_span, s.trace.span, sizeof s.trace.span);
    s.attributes = a;
    s.attribute_count = 2;
    s.failed = true;
    s.error = S("no");
    otlp_add_span(&b, &s);
    assert_bytes(&b, IDS "1a03763d31"
                         "220800000000000000ff" RUN "3005" TIMES "4a0b0a01711206"
                         "0a046d61696c"
                         "4a080a016e1203"
                         "18ac02"
                         "6a1c0a104bf92f3577b34da6a3ce929d0e0e4736120800f067aa0ba902b7"
                         "7a0612026e6f1802" FLAGS);
}

static void a_request_wraps_resource_scope_and_spans(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf resource, b;
    buf_init(&resource, 1024);
    buf_init(&b, 4096);
    otlp_add_resource_attribute(&resource, S("k"), S("v"));
    assert_bytes(&resource, "0a080a016b12030a0176");
    const struct str spans[] = { S("ab"), S("c") };
    otlp_add_request(&b, buf_str(&resource), spans, 2);
    size_t scope = 2 + 2 + sizeof "belfry" - 1 + 2 + sizeof BELFRY_VERSION - 1;
    struct str got = buf_str(&b);
    assert_int_equal(got.p[0], 0x0a);
    assert_int_equal(got.p[1], 2 + resource.n + 2 + scope + 4 + 3);
    assert_int_equal(got.n, 2 + (size_t)got.p[1]);
    assert_memory_equal(got.p + 4, resource.p, resource.n);
    assert_memory_equal(got.p + got.n - 7,
                        "\x12\x02"
                        "ab\x12\x01"
                        "c",
                        7);
}

static void long_texts_are_cut_and_the_largest_span_fits(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, OTLP_SPAN_MAX);
    char text[4000];
    memset(text, 'x', sizeof text);
    struct str all = { text, sizeof text };
    struct span s = span_of();
    struct span_attribute a[OTLP_ATTRIBUTES_MAX];
    for (size_t i = 0; i < OTLP_ATTRIBUTES_MAX; i++)
        a[i] = (struct span_attribute){ .key = "http.response.status_code", .text = all };
    s.name = s.error = all;
    s.trace.state = str_sub(all, 0, TRACE_STATE_MAX);
    s.attributes = a;
    s.attribute_count = OTLP_ATTRIBUTES_MAX;
    s.failed = true;
    otlp_add_span(&b, &s);
    assert_false(b.full);
}

static void rejected_spans_are_read(void **state)
{
    (void)state;
    assert_int_equal(otlp_read_rejected(S("")), 0);
    assert_int_equal(otlp_read_rejected(((struct str){ "\x0a\x02\x08\x05", 4 })), 5);
    assert_int_equal(otlp_read_rejected(((struct str){ "\x0a\x06\x12\x01x\x08\xac\x02", 8 })), 300);
    assert_int_equal(otlp_read_rejected(S("{}")), 0); /* no protobuf */
    assert_int_equal(otlp_read_rejected(((struct str){ "\x0a\x7f\x08", 3 })), 0);
    assert_int_equal(otlp_read_rejected(((struct str){ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11 })), 0);
}

/* ---- settings ---- */

static const char *(*variables)[2];

static const char *env(const char *name)
{
    for (size_t i = 0; variables && variables[i][0]; i++)
        if (strcmp(variables[i][0], name) == 0)
            return variables[i][1];
    return NULL;
}

static void assert_url(const char *endpoint, const char *vars[][2], const char *want)
{
    struct otlp_settings s = { 0 };
    struct error e = { 0 };
    variables = vars;
    enum err rc = otlp_settings_read(str_from(endpoint), S("0.5"), "host:1", env, &s, &e);
    if (rc || strcmp(buf_cstr(&s.url), want) != 0)
        fail_msg("%s: %s %s", endpoint, rc ? e.text : buf_cstr(&s.url), want);
    assert_true(s.ratio == 0.5);
    otlp_settings_release(&s);
}

static void the_endpoint_comes_from_settings_or_variables(void **state)
{
    (void)state;
    const char *base[][2] = { { "OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example/otlp/" }, { 0 } };
    const char *bare[][2] = { { "OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318" }, { 0 } };
    const char *both[][2] = { { "OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318" },
                              { "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x" },
                              { 0 } };
    const char *off[][2] = { { "OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318" },
                             { "OTEL_SDK_DISABLED", "true" },
                             { 0 } };
    assert_url("", NULL, "");
    assert_url("http://127.0.0.1:4318", NULL, "http://127.0.0.1:4318/v1/traces");
    assert_url("http://127.0.0.1:4318/", NULL, "http://127.0.0.1:4318/v1/traces");
    assert_url("http://c/custom", both, "http://c/custom");
    assert_url("", base, "https://c.example/otlp/v1/traces");
    assert_url("", bare, "http://c:4318/v1/traces");
    assert_url("", both, "http://t/x");
    assert_url("", off, "");
    assert_url("http://own", off, "http://own/v1/traces");
}

static void assert_refused(const char *endpoint, const char *ratio, const char *vars[][2], const char *field)
{
    struct otlp_settings s = { 0 };
    struct error e = { 0 };
    variables = vars;
    assert_int_equal(otlp_settings_read(str_from(endpoint), str_from(ratio), "host:1", env, &s, &e), ERR_INVALID);
    assert_string_equal(e.field, field);
    otlp_settings_release(&s);
}

static void wrong_settings_are_named(void **state)
{
    (void)state;
    const char *headers[][2] = { { "OTEL_EXPORTER_OTLP_HEADERS", "novalue" }, { 0 } };
    const char *lines[][2] = { { "OTEL_EXPORTER_OTLP_HEADERS", "a=b%0ac: d" }, { 0 } };
    const char *resource[][2] = { { "OTEL_RESOURCE_ATTRIBUTES", "a=b,c" }, { 0 } };
    assert_refused("127.0.0.1:4318", "0.01", NULL, "trace.endpoint");
    assert_refused("grpc://c", "0.01", NULL, "trace.endpoint");
    assert_refused("", "1.5", NULL, "trace.ratio");
    assert_refused("", "-0.1", NULL, "trace.ratio");
    assert_refused("", "nan", NULL, "trace.ratio");
    assert_refused("", "half", NULL, "trace.ratio");
    assert_refused("http://c", "1", headers, "OTEL_EXPORTER_OTLP_HEADERS");
    assert_refused("http://c", "1", lines, "OTEL_EXPORTER_OTLP_HEADERS");
    assert_refused("http://c", "1", resource, "OTEL_RESOURCE_ATTRIBUTES");
}

static void headers_and_resource_come_from_variables(void **state)
{
    (void)state;
    const char *vars[][2] = { { "OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%20t, team = a" },
                              { "OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment=test" },
                              { "OTEL_SERVICE_NAME", "mine" },
                              { 0 } };
    struct otlp_settings s = { 0 };
    struct error e = { 0 };
    variables = vars;
    assert_ok(otlp_settings_read(S("http://c"), S("1"), "host:1", env, &s, &e), &e);
    assert_memory_equal(s.headers.p, "api-key: s t\0team: a\0", s.headers.n);
    cleanup_with(buf_release) struct buf want;
    buf_init(&want, OTLP_TEXT_MAX);
    otlp_add_resource_attribute(&want, S("service.name"), S("mine"));
    otlp_add_resource_attribute(&want, S("service.version"), S(BELFRY_VERSION));
    otlp_add_resource_attribute(&want, S("service.instance.id"), S("host:1"));
    otlp_add_resource_attribute(&want, S("deployment.environment"), S("test"));
    assert_int_equal(s.resource.n, want.n);
    assert_memory_equal(s.resource.p, want.p, want.n);
    otlp_settings_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_has_ids_name_kind_and_times),
        cmocka_unit_test(a_span_has_parent_attributes_link_and_status),
        cmocka_unit_test(a_request_wraps_resource_scope_and_spans),
        cmocka_unit_test(long_texts_are_cut_and_the_largest_span_fits),
        cmocka_unit_test(rejected_spans_are_read),
        cmocka_unit_test(the_endpoint_comes_from_settings_or_variables),
        cmocka_unit_test(wrong_settings_are_named),
        cmocka_unit_test(headers_and_resource_come_from_variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
