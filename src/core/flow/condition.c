/* Conditions are read into a tree in the arena. Recursion is limited by CONDITION_DEPTH_MAX, and that over values by
 * JSON_DEPTH_MAX. */
#include "core/flow/condition.h"

#include <assert.h>
#include <stdio.h>

enum condition_op { OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_EXISTS, OP_PREFIX };
static const char *const op_names[] = { "eq", "ne", "lt", "le", "gt", "ge", "in", "exists", "prefix", NULL };

enum condition_kind { CONDITION_COMPARE, CONDITION_ALL, CONDITION_ANY, CONDITION_NOT };

struct condition {
    enum condition_kind kind;
    size_t n; /* ALL, ANY, NOT: operands */
    const struct condition **of;
    struct reference ref; /* COMPARE, like the rest */
    enum condition_op op;
    json_t *value; /* NULL: not given */
};

struct condition_body {
    struct str ref;
    int op;
    json_t *value, *all, *any, *not ;
    bool has_ref, has_op;
};

#define AT(member)   .offset = offsetof(struct condition_body, member)
#define SEEN(member) .seen_offset = offsetof(struct condition_body, member)
/* clang-format off */
static const struct json_field condition_fields[] = {
    { .name = "ref", .kind = JSON_KIND_STR, AT(ref), SEEN(has_ref), .max = POINTER_BYTES_MAX },
    { .name = "op", .kind = JSON_KIND_ENUM, AT(op), SEEN(has_op), .names = op_names },
    { .name = "value", .kind = JSON_KIND_RAW, AT(value) },
    { .name = "all", .kind = JSON_KIND_RAW, AT(all) },
    { .name = "any", .kind = JSON_KIND_RAW, AT(any) },
    { .name = "not", .kind = JSON_KIND_RAW, AT(not) },
};
/* clang-format on */

struct condition_reader {
    struct arena *a;
    struct error *e;
    int operators; /* read so far */
};

/* ---- reading ---- */

static enum err condition_read_node(struct condition_reader *r, json_t *v, int depth, const struct condition **ret);

/* What each operator accepts as its value. */
static enum err condition_check_value(const struct condition *c, struct error *e)
{
    switch (c->op) {
    case OP_EXISTS:
        if (c->value && !json_is_boolean(c->value))
            return error_field(e, "value", "must be true or false with 'exists', or be left out");
        return ERR_OK;
    case OP_IN:
        if (!json_is_array(c->value))
            return error_field(e, "value", "must be an array with 'in'");
        return ERR_OK;
    case OP_PREFIX:
        if (!json_is_string(c->value))
            return error_field(e, "value", "must be a text with 'prefix'");
        return ERR_OK;
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        if (!json_is_number(c->value) && !json_is_string(c->value))
            return error_field(e, "value", "must be a number or a text with '%s'", op_names[c->op]);
        return ERR_OK;
    case OP_EQ:
    case OP_NE: break;
    }
    return c->value ? ERR_OK : error_field(e, "value", "is required with '%s'", op_names[c->op]);
}

static enum err condition_read_compare(struct condition_reader *r, const struct condition_body *b, struct condition *c)
{
    struct error why;
    if (!b->has_ref || !b->has_op)
        return error_field(r->e, b->has_ref ? "op" : "ref", "is required");
    c->kind = CONDITION_COMPARE;
    c->op = (enum condition_op)b->op;
    c->value = b->value;
    if (reference_read(b->ref, &c->ref, &why))
        return error_field(r->e, "ref", "%s", why.text);
    return condition_check_value(c, r->e);
}

/* all, any */
static enum err condition_read_list(struct condition_reader *r, json_t *list, int depth, const char *name,
                                    struct condition *c)
{
    if (!json_is_array(list) || json_array_size(list) == 0)
        return error_field(r->e, name, "must be an array of at least one condition");
    size_t n = json_array_size(list);
    if (n > CONDITION_OPERATORS_MAX)
        return error_field(r->e, name, "must have at most %d conditions, not %zu", CONDITION_OPERATORS_MAX, n);
    c->n = n;
    c->of = arena_array(r->a, const struct condition *, n);
    if (!c->of)
        return error_no_room(r->e);
    for (size_t i = 0; i < n; i++) {
        char at[32];
        snprintf(at, sizeof at, "%s[%zu]", name, i);
        if (condition_read_node(r, json_array_get(list, i), depth + 1, &c->of[i]))
            return error_in(r->e, at);
    }
    return ERR_OK;
}

static enum err condition_read_not(struct condition_reader *r, json_t *operand, int depth, struct condition *c)
{
    c->n = 1;
    c->of = arena_array(r->a, const struct condition *, 1);
    if (!c->of)
        return error_no_room(r->e);
    return condition_read_node(r, operand, depth + 1, &c->of[0]) ? error_in(r->e, "not") : ERR_OK;
}

static enum err condition_read_body(struct condition_reader *r, const struct condition_body *b, int depth,
                                    struct condition *c)
{
    bool compares = b->has_ref || b->has_op || b->value;
    if (compares + !!b->all + !!b->any + !!b->not != 1)
        return error_field(r->e, "", "must be {\"ref\", \"op\", \"value\"} or have one of all, any, not");
    if (compares)
        return condition_read_compare(r, b, c);
    c->kind = b->all ? CONDITION_ALL : b->any ? CONDITION_ANY : CONDITION_NOT;
    if (b->not )
        return condition_read_not(r, b->not, depth, c);
    return condition_read_list(r, b->all ? b->all : b->any, depth, b->all ? "all" : "any", c);
}

static enum err condition_read_node(struct condition_reader *r, json_t *v, int depth, // NOLINT(misc-no-recursion)
                                    const struct condition **ret)
{
    struct condition_body b = { 0 };
    if (depth > CONDITION_DEPTH_MAX)
        return error_field(r->e, "", "is nested more than %d levels deep", CONDITION_DEPTH_MAX);
    if (++r->operators > CONDITION_OPERATORS_MAX)
        return error_field(r->e, "", "is the %dth operator; a condition has at most %d", r->operators,
                           CONDITION_OPERATORS_MAX);
    if (json_read(v, condition_fields, array_count(condition_fields), &b, r->a, r->e))
        return r->e->code;
    struct condition *c = arena_new(r->a, struct condition);
    if (!c)
        return error_no_room(r->e);
    if (condition_read_body(r, &b, depth, c))
        return r->e->code;
    *ret = c;
    return ERR_OK;
}

enum err condition_read(json_t *v, struct arena *a, const struct condition **ret, struct error *e)
{
    struct error own; /* so that e may be NULL */
    struct condition_reader r = { .a = a, .e = e ? e : &own };
    return condition_read_node(&r, v, 1, ret);
}

/* ---- comparing ---- */

/* Exact: a double between two integers is neither of them. */
static int condition_compare_mixed(int64_t i, double d)
{
    if (d >= 9223372036854775808.0)
        return -1;
    if (d < -9223372036854775808.0)
        return 1;
    int64_t whole = (int64_t)d;
    if (i != whole)
        return i < whole ? -1 : 1;
    double fraction = d - (double)whole;
    return fraction > 0 ? -1 : fraction < 0;
}

static int condition_compare_numbers(json_t *a, json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b)) {
        json_int_t x = json_integer_value(a), y = json_integer_value(b);
        return (x > y) - (x < y);
    }
    if (json_is_integer(a))
        return condition_compare_mixed(json_integer_value(a), json_real_value(b));
    if (json_is_integer(b))
        return -condition_compare_mixed(json_integer_value(b), json_real_value(a));
    double x = json_real_value(a), y = json_real_value(b);
    return (x > y) - (x < y);
}

static struct str condition_text(json_t *v)
{
    return (struct str){ json_string_value(v), json_string_length(v) };
}

static bool condition_equal(json_t *a, json_t *b);

static bool condition_equal_objects(json_t *a, json_t *b) // NOLINT(misc-no-recursion)
{
    if (json_object_size(a) != json_object_size(b))
        return false;
    const char *name;
    json_t *member;
    json_object_foreach (a, name, member) {
        json_t *other = json_object_get(b, name);
        if (!other || !condition_equal(member, other))
            return false;
    }
    return true;
}

static bool condition_equal_arrays(json_t *a, json_t *b) // NOLINT(misc-no-recursion)
{
    if (json_array_size(a) != json_array_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!condition_equal(json_array_get(a, i), json_array_get(b, i)))
            return false;
    return true;
}

static bool condition_equal(json_t *a, json_t *b) // NOLINT(misc-no-recursion)
{
    if (json_is_number(a) && json_is_number(b))
        return condition_compare_numbers(a, b) == 0;
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_string(a))
        return str_eq(condition_text(a), condition_text(b));
    if (json_is_object(a))
        return condition_equal_objects(a, b);
    return json_is_array(a) ? condition_equal_arrays(a, b) : true;
}

static bool condition_is_in(json_t *v, json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        if (condition_equal(v, json_array_get(array, i)))
            return true;
    return false;
}

static bool condition_is_ordered(enum condition_op op, json_t *a, json_t *b)
{
    int order;
    if (json_is_number(a) && json_is_number(b))
        order = condition_compare_numbers(a, b);
    else if (json_is_string(a) && json_is_string(b))
        order = str_cmp(condition_text(a), condition_text(b));
    else
        return false;
    return op == OP_LT ? order < 0 : op == OP_LE ? order <= 0 : op == OP_GT ? order > 0 : order >= 0;
}

static bool condition_compare(const struct condition *c, json_t *v)
{
    if (c->op == OP_EXISTS)
        return (v != NULL) == (!c->value || json_is_true(c->value));
    if (!v)
        return false;
    switch (c->op) {
    case OP_EQ: return condition_equal(v, c->value);
    case OP_NE: return !condition_equal(v, c->value);
    case OP_IN: return condition_is_in(v, c->value);
    case OP_PREFIX: return json_is_string(v) && str_starts(condition_text(v), condition_text(c->value));
    default: return condition_is_ordered(c->op, v, c->value);
    }
}

/* ---- evaluating ---- */

enum err condition_holds(const struct condition *c, const struct reference_data *d,
                         bool *ret, // NOLINT(misc-no-recursion)
                         struct error *e)
{
    if (c->kind == CONDITION_COMPARE) {
        json_t *v = NULL;
        enum err rc = reference_value(d, &c->ref, &v, e);
        if (rc == ERR_OK)
            *ret = condition_compare(c, v);
        return rc;
    }
    bool holds = c->kind == CONDITION_ALL;
    for (size_t i = 0; i < c->n; i++) {
        enum err rc = condition_holds(c->of[i], d, &holds, e);
        if (rc)
            return rc;
        if (holds != (c->kind == CONDITION_ALL))
            break;
    }
    *ret = c->kind == CONDITION_NOT ? !holds : holds;
    return ERR_OK;
}

static enum err condition_visit(const struct condition *c,
                                const struct reference_visitor *v, // NOLINT(misc-no-recursion)
                                struct error *e)
{
    static const char *const names[] = { [CONDITION_ALL] = "all", [CONDITION_ANY] = "any", [CONDITION_NOT] = "not" };
    if (c->kind == CONDITION_COMPARE)
        return v->visit(v->ctx, &c->ref, e) ? error_in(e, "ref") : ERR_OK;
    for (size_t i = 0; i < c->n; i++) {
        char at[32];
        if (c->kind == CONDITION_NOT)
            snprintf(at, sizeof at, "not");
        else
            snprintf(at, sizeof at, "%s[%zu]", names[c->kind], i);
        if (condition_visit(c->of[i], v, e))
            return error_in(e, at);
    }
    return ERR_OK;
}

enum err condition_references(const struct condition *c, const struct reference_visitor *v, struct error *e)
{
    struct error own; /* so that e may be NULL */
    return condition_visit(c, v, e ? e : &own);
}
