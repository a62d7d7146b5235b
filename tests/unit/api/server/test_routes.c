/* The table of routes and openapi.json must agree. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/server/openapi.h"
#include "api/server/respond.h"
#include "api/server/routes.h"
#include "base/json/json.h"
#include "core/flow/dag.h"

static json_t *description(struct json_doc *doc)
{
    struct error e = { 0 };
    assert_ok(json_parse(openapi_json(), doc, &e), &e);
    return doc->root;
}

/* What a "$ref" names, or the value itself. */
static json_t *follow(json_t *root, json_t *v)
{
    for (const char *ref; (ref = json_string_value(json_object_get(v, "$ref")));) {
        struct str rest = str_from(ref), piece;
        v = root;
        while (str_cut(&rest, '/', &piece)) {
            char name[64];
            snprintf(name, sizeof name, STR_FMT, STR_ARG(piece));
            if (strcmp(name, "#") != 0)
                v = json_object_get(v, name);
        }
        if (!v)
            fail_msg("%s leads nowhere", ref);
    }
    return v;
}

static json_t *operation(json_t *root, const struct route *r)
{
    static const char *const names[] = { "get", "post", "put", "patch", "delete" };
    return json_object_get(json_object_get(json_object_get(root, "paths"), r->pattern), names[r->method]);
}

static void every_route_is_described_with_its_scope(void **state)
{
    (void)state;
    struct json_doc doc;
    json_t *root = description(&doc);
    for (size_t i = 0; i < route_count; i++) {
        json_t *op = operation(root, &routes[i]);
        if (routes[i].flags & ROUTE_PAGE)
            continue;
        if (!op)
            fail_msg("%s %s is not described", method_name(routes[i].method), routes[i].pattern);
        bool open = json_array_size(json_object_get(op, "security")) == 0;
        assert_true(json_is_array(json_object_get(op, "security")));
        assert_int_equal(open, routes[i].scope == SCOPE_PUBLIC);
        if (!open)
            assert_string_equal(json_string_value(json_object_get(op, "x-scope")), scope_name(routes[i].scope));
        assert_non_null(json_object_get(op, "operationId"));
    }
    json_doc_release(&doc);
}

static void nothing_is_described_that_is_no_route(void **state)
{
    (void)state;
    struct json_doc doc;
    json_t *paths = json_object_get(description(&doc), "paths");
    size_t described = 0;
    const char *path;
    json_t *item;
    json_object_foreach (paths, path, item)
        described += json_object_size(item);
    size_t pages = 0;
    for (size_t i = 0; i < route_count; i++)
        pages += !!(routes[i].flags & ROUTE_PAGE);
    assert_int_equal(described, route_count - pages);
    json_doc_release(&doc);
}

static void what_writes_takes_a_key_and_says_so(void **state)
{
    (void)state;
    struct json_doc doc;
    json_t *root = description(&doc);
    for (size_t i = 0; i < route_count; i++) {
        if (routes[i].flags & ROUTE_PAGE)
            continue;
        char *text = json_dumps(operation(root, &routes[i]), 0);
        bool takes = strstr(text, "parameters/IdempotencyKey") != NULL;
        assert_int_equal(takes, !!(routes[i].flags & ROUTE_WRITES));
        /* reads only, but has a body */
        bool only_looks = routes[i].method == HTTP_GET || routes[i].run == preview_body;
        bool leases = routes[i].run == leases_acquire || routes[i].run == leases_heartbeat ||
                      routes[i].run == leases_report;   /* repeated reports are recognised by the lease */
        bool logs_in = routes[i].flags & ROUTE_AUDITED; /* a record would hold the session */
        assert_int_equal(takes, !only_looks && !leases && !logs_in);
        assert_int_equal(routes[i].body_max > 0, takes || leases || logs_in || routes[i].run == preview_body);
        free(text);
    }
    json_doc_release(&doc);
}

/* Each "$ref" has a target. */
static void check_refs(json_t *root, json_t *at)
{
    const char *key;
    size_t i;
    json_t *v;
    (void)follow(root, at);
    json_object_foreach (at, key, v)
        check_refs(root, v);
    json_array_foreach (at, i, v)
        check_refs(root, v);
}

static void references_lead_somewhere(void **state)
{
    (void)state;
    struct json_doc doc;
    json_t *root = description(&doc);
    check_refs(root, root);
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "info"), "version")), BELFRY_VERSION);
    json_doc_release(&doc);
}

static void every_problem_is_described_with_its_remedy(void **state)
{
    (void)state;
    static const char *const problems[][2] = {
#define X(id, status, slug, title) { "urn:belfry:problem:" slug, title },
        PROBLEM_MAP(X)
#undef X
    };
    struct json_doc doc;
    const json_t *types = json_at(description(&doc), "components.schemas.Problem.properties.type.oneOf");
    assert_int_equal(json_array_size(types), array_count(problems));
    for (size_t i = 0; i < array_count(problems); i++) {
        const json_t *row = json_array_get(types, i);
        assert_string_equal(json_string_value(json_object_get(row, "const")), problems[i][0]);
        assert_string_equal(json_string_value(json_object_get(row, "title")), problems[i][1]);
        assert_true(json_string_length(json_object_get(row, "description")) > 0);
    }
    json_doc_release(&doc);
}

/* ---- the definition of a workflow ---- */

static void check_bounds(json_t *schema, const struct json_field *f)
{
    if (f->kind == JSON_KIND_I64) {
        assert_int_equal(json_integer_value(json_object_get(schema, "minimum")), f->min);
        assert_int_equal(json_integer_value(json_object_get(schema, "maximum")), f->max);
    }
    if (f->kind == JSON_KIND_ARRAY) {
        assert_int_equal(json_integer_value(json_object_get(schema, "minItems")), f->min);
        assert_int_equal(json_integer_value(json_object_get(schema, "maxItems")), f->max);
    }
    size_t i;
    json_t *name;
    json_array_foreach (json_object_get(schema, "enum"), i, name) {
        size_t k = 0;
        while (f->kind == JSON_KIND_ENUM && f->names[k] && strcmp(f->names[k], json_string_value(name)) != 0)
            k++;
        assert_true(f->kind != JSON_KIND_ENUM || f->names[k]);
    }
}

static bool is_required(json_t *schema, const char *field)
{
    size_t i;
    json_t *name;
    json_array_foreach (json_object_get(schema, "required"), i, name)
        if (strcmp(json_string_value(name), field) == 0)
            return true;
    return false;
}

static void check_fields(json_t *root, json_t *v, const struct json_field *fields, size_t n)
{
    json_t *schema = follow(root, v), *properties = json_object_get(schema, "properties");
    assert_int_equal(json_object_size(properties), n);
    assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
    for (size_t i = 0; i < n; i++) {
        const struct json_field *f = &fields[i];
        json_t *described = json_object_get(properties, f->name);
        if (!described)
            fail_msg("%s is not described", f->name);
        assert_int_equal(is_required(schema, f->name), f->required);
        described = follow(root, described);
        check_bounds(described, f);
        bool is_list = f->kind == JSON_KIND_ARRAY && f->fields->kind == JSON_KIND_OBJECT;
        if (is_list)
            check_fields(root, json_object_get(described, "items"), f->fields->fields, f->fields->count);
        else if (f->kind == JSON_KIND_OBJECT)
            check_fields(root, described, f->fields, f->count);
    }
}

static void a_definition_is_described_as_it_is_read(void **state)
{
    (void)state;
    struct json_doc doc;
    json_t *root = description(&doc);
    size_t n;
    const struct json_field *fields = dag_fields(&n);
    json_t *schemas = json_object_get(json_object_get(root, "components"), "schemas");
    check_fields(root, json_object_get(schemas, "Workflow"), fields, n);
    json_doc_release(&doc);
}

/* ---- paths ---- */

#define ID "0192a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"

static void paths_find_their_route(void **state)
{
    (void)state;
    char allow[ALLOW_TEXT] = "?", text[UUID_TEXT + 1];
    struct route_params words = { 0 };
    const struct route *r = route_find(HTTP_GET, S("/v1/tasks/" ID "/executions"), &words, allow);
    assert_non_null(r);
    assert_string_equal(r->pattern, "/v1/tasks/{id}/executions");
    uuid_format(words.id, text);
    assert_string_equal(text, ID);
    assert_ptr_equal(route_find(HTTP_POST, S("/v1/tasks/batch"), &words, allow)->run, batch_create);
    assert_null(route_find(HTTP_GET, S("/v1/tasks/batch"), &words, allow));
    assert_string_equal(allow, "POST, OPTIONS");
    assert_null(route_find(HTTP_POST, S("/v1/tasks/" ID), &words, allow));
    assert_string_equal(allow, "GET, HEAD, PATCH, DELETE, OPTIONS");
    static const char *const nowhere[] = {
        "", "/v1/", "/uix", "/v1/tasks/" ID "x", "/v1/tasks/" ID "/", "/v1/tasks/abc", "/healthy"
    };
    for (size_t i = 0; i < array_count(nowhere); i++) {
        assert_null(route_find(HTTP_GET, str_from(nowhere[i]), &words, allow));
        assert_string_equal(allow, "");
    }
}

static void names_in_paths_are_words(void **state)
{
    (void)state;
    char allow[ALLOW_TEXT] = "?", longest[ROUTE_NAME_MAX + sizeof "/v1/queues/x"];
    struct route_params words = { 0 };
    assert_string_equal(route_find(HTTP_GET, S("/v1/queues/mail-1.eu_west:a"), &words, allow)->pattern,
                        "/v1/queues/{name}");
    assert_str(words.name, "mail-1.eu_west:a");
    assert_ptr_equal(route_find(HTTP_PUT, S("/v1/queues/x"), &words, allow)->run, queues_put);
    assert_null(route_find(HTTP_POST, S("/v1/queues/x"), &words, allow));
    assert_string_equal(allow, "GET, HEAD, PUT, PATCH, DELETE, OPTIONS");
    static const char *const nowhere[] = { "/v1/queues/",         "/v1/queues/a b", "/v1/queues/a/b",
                                           "/v1/queues/\xc3\xa4", "/v1/queues/a%",  "/v1/queues/a?b" };
    for (size_t i = 0; i < array_count(nowhere); i++) {
        assert_null(route_find(HTTP_GET, str_from(nowhere[i]), &words, allow));
        assert_string_equal(allow, "");
    }
    int n = snprintf(longest, sizeof longest, "/v1/queues/%0*d", ROUTE_NAME_MAX, 7);
    assert_non_null(route_find(HTTP_GET, (struct str){ longest, (size_t)n }, &words, allow));
    n = snprintf(longest, sizeof longest, "/v1/queues/%0*d", ROUTE_NAME_MAX + 1, 7);
    assert_null(route_find(HTTP_GET, (struct str){ longest, (size_t)n }, &words, allow));
}

static void files_of_the_dashboard_have_any_path(void **state)
{
    (void)state;
    char allow[ALLOW_TEXT] = "?";
    struct route_params words = { 0 };
    assert_ptr_equal(route_find(HTTP_GET, S("/ui/"), &words, allow)->run, site_index);
    assert_ptr_equal(route_find(HTTP_GET, S("/ui/0123/lib/a b.js"), &words, allow)->run, site_file);
    assert_str(words.name, "0123/lib/a b.js");
    assert_null(route_find(HTTP_POST, S("/ui/x"), &words, allow));
    assert_string_equal(allow, "GET, HEAD, OPTIONS");
}

static void methods_have_names(void **state)
{
    (void)state;
    assert_int_equal(method_parse(S("HEAD")), HTTP_GET);
    assert_int_equal(method_parse(S("PATCH")), HTTP_PATCH);
    assert_int_equal(method_parse(S("patch")), HTTP_OTHER);
    assert_string_equal(method_name(HTTP_OPTIONS), "OPTIONS");
    assert_string_equal(method_name(HTTP_OTHER), "OTHER");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_is_described_with_its_scope),
        cmocka_unit_test(nothing_is_described_that_is_no_route),
        cmocka_unit_test(what_writes_takes_a_key_and_says_so),
        cmocka_unit_test(references_lead_somewhere),
        cmocka_unit_test(every_problem_is_described_with_its_remedy),
        cmocka_unit_test(a_definition_is_described_as_it_is_read),
        cmocka_unit_test(paths_find_their_route),
        cmocka_unit_test(names_in_paths_are_words),
        cmocka_unit_test(files_of_the_dashboard_have_any_path),
        cmocka_unit_test(methods_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
