#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/server/request.h"
#include "api/server/respond.h"
#include "base/json/json.h"

static void problems_have_the_shape_of_rfc_9457(void **state)
{
    (void)state;
    struct response r;
    response_init(&r);
    struct error e = { .code = ERR_INVALID, .field = "retry.max_attempts", .text = "must be at least 1" };
    respond_error(&r, &e);
    assert_int_equal(r.status, 400);
    assert_string_equal(r.type, "application/problem+json");
    assert_string_equal(
        buf_cstr(&r.body),
        "{\"type\":\"urn:belfry:problem:invalid-request\",\"title\":\"The request is not valid\",\"status\":400,"
        "\"detail\":\"retry.max_attempts must be at least 1\",\"errors\":[{\"field\":\"retry.max_attempts\","
        "\"message\":\"must be at least 1\"}]}");
    respond_problem(&r, PROBLEM_NOT_FOUND, "no %s", "such \"thing\"");
    assert_int_equal(r.status, 404);
    assert_string_equal(buf_cstr(&r.body), "{\"type\":\"urn:belfry:problem:not-found\",\"title\":\"Not found\","
                                           "\"status\":404,\"detail\":\"no such \\\"thing\\\"\"}");
    e = (struct error){ .code = ERR_CONFLICT };
    respond_field(&r, PROBLEM_CONFLICT, &e);
    assert_non_null(strstr(buf_cstr(&r.body), "\"detail\":\"The current state does not allow this\""));
    response_release(&r);
}

static void our_own_troubles_are_not_told(void **state)
{
    (void)state;
    static const struct {
        enum err code;
        int status, retry_after;
        bool told;
    } rows[] = {
        { ERR_INVALID, 400, 0, true },  { ERR_LIMIT, 400, 0, true },        { ERR_NOT_FOUND, 404, 0, true },
        { ERR_CONFLICT, 409, 0, true }, { ERR_UNAVAILABLE, 503, 1, false }, { ERR_CORRUPT, 500, 0, false },
    };
    struct response r;
    response_init(&r);
    for (size_t i = 0; i < array_count(rows); i++) {
        struct error e = { .code = rows[i].code, .text = "SELECT secret" };
        respond_error(&r, &e);
        assert_int_equal(r.status, rows[i].status);
        assert_int_equal(r.retry_after_s, rows[i].retry_after);
        assert_int_equal(strstr(buf_cstr(&r.body), "SELECT") != NULL, rows[i].told);
    }
    response_release(&r);
}

static void a_new_answer_voids_what_was_begun(void **state)
{
    (void)state;
    struct response r;
    response_init(&r);
    struct jw w = respond_json(&r, 201);
    jw_object(&w);
    respond_etag(&r, 3);
    assert_string_equal(r.etag, "\"3\"");
    r.close = true;
    respond_problem(&r, PROBLEM_INTERNAL, "x");
    assert_string_equal(r.etag, "");
    assert_true(r.close);
    assert_int_equal(buf_cstr(&r.body)[0], '{');
    assert_int_equal(r.status, 500);
    response_release(&r);
}

static void if_match_is_a_list_of_versions(void **state)
{
    (void)state;
    assert_true(if_match_allows(S(""), 3));
    assert_true(if_match_allows(S("*"), 3));
    assert_true(if_match_allows(S("\"3\""), 3));
    assert_true(if_match_allows(S("\"1\" , \"3\""), 3));
    assert_true(if_match_allows(S("3"), 3));
    assert_true(if_match_allows(S("\"3-0123456789abcdef\""), 3)); /* as GET sends it */
    assert_true(if_match_allows(S("\"3-0123456789abcdef-gzip\""), 3));
    assert_false(if_match_allows(S("\"31-0123456789abcdef\""), 3));
    assert_false(if_match_allows(S("\"\""), 3));
    assert_false(if_match_allows(S("\"3"), 3));
    assert_false(if_match_allows(S("\"31\""), 3));
    assert_false(if_match_allows(S("W/\"3\""), 3));
    assert_false(if_match_allows(S("\"1\","), 3));
    assert_false(if_match_allows(S(","), 3));
}

static void the_tag_of_a_body_keeps_the_version_in_front(void **state)
{
    (void)state;
    struct response r;
    response_init(&r);
    struct jw w = respond_json(&r, 200);
    jw_raw(&w, S("{}"));
    respond_etag(&r, INT64_MAX);
    respond_etag_of_body(&r);
    respond_etag_gzip(&r);
    assert_int_equal(strlen(r.etag), 19 + 1 + 16 + 1 + 4 + 2);
    assert_true(if_match_allows(str_from(r.etag), INT64_MAX));
    respond_not_modified(&r);
    assert_int_equal(r.status, 304);
    assert_int_equal(strlen(r.etag), 43);
    assert_int_equal(r.body.n, 0);
    response_release(&r);
}

static void pages_say_what_they_are(void **state)
{
    (void)state;
    static const struct {
        struct pagination p;
        const char *text;
    } rows[] = {
        { { .limit = 20, .total = -1 }, "{\"pagination\":{\"next_cursor\":null,\"limit\":20}}" },
        { { .limit = 5, .page = 2, .total = 10000 },
          "{\"pagination\":{\"next_cursor\":null,\"limit\":5,\"page\":2,\"total\":10000,\"total_exact\":false}}" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct response r;
        response_init(&r);
        struct jw w = respond_json(&r, 200);
        jw_object(&w);
        pagination_write(NULL, &w, &rows[i].p);
        jw_object_end(&w);
        assert_string_equal(buf_cstr(&r.body), rows[i].text);
        response_release(&r);
    }
}

static void media_types_are_known_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        bool known, lines;
    } rows[] = {
        { "", true, false },
        { "application/json", true, false },
        { "Application/JSON; charset=utf-8", true, false },
        { "application/merge-patch+json", true, false },
        { "application/x-ndjson", true, true },
        { "application/x-www-form-urlencoded", true, false },
        { "text/plain", false, false },
        { "+json", false, false },
        { "multipart/form-data; boundary=x", false, false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        bool lines = !rows[i].lines;
        assert_int_equal(media_type_is_known(str_from(rows[i].type), &lines), rows[i].known);
        assert_int_equal(lines, rows[i].lines);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(problems_have_the_shape_of_rfc_9457),
        cmocka_unit_test(our_own_troubles_are_not_told),
        cmocka_unit_test(a_new_answer_voids_what_was_begun),
        cmocka_unit_test(if_match_is_a_list_of_versions),
        cmocka_unit_test(the_tag_of_a_body_keeps_the_version_in_front),
        cmocka_unit_test(pages_say_what_they_are),
        cmocka_unit_test(media_types_are_known_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
