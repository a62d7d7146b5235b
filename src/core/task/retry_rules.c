#include "core/task/retry_rules.h"

#include <assert.h>

#include "base/json/json.h"

enum { RULES_MAX = 20, ON_MAX = 40, RULES_ARENA = 64 * 1024 };

struct retry_rule {
    struct json_array on;                              /* of struct str */
    int64_t max_attempts, base_delay_ms, max_delay_ms; /* -1: the policy's value */
};

static const struct json_field on_field[] = { { .kind = JSON_KIND_STR, .min = 1, .max = 16 } };
static const struct json_field rule_fields[] = {
    { .name = "on",
      .kind = JSON_KIND_ARRAY,
      .offset = offsetof(struct retry_rule, on),
      .fields = on_field,
      .count = 1,
      .size = sizeof(struct str),
      .min = 1,
      .max = ON_MAX,
      .required = true },
    { .name = "max_attempts",
      .kind = JSON_KIND_I64,
      .offset = offsetof(struct retry_rule, max_attempts),
      .min = 1,
      .max = 100 },
    { .name = "base_delay_ms",
      .kind = JSON_KIND_I64,
      .offset = offsetof(struct retry_rule, base_delay_ms),
      .min = 1,
      .max = 86400000 },
    { .name = "max_delay_ms",
      .kind = JSON_KIND_I64,
      .offset = offsetof(struct retry_rule, max_delay_ms),
      .min = 1,
      .max = 604800000 },
};

static const struct {
    const char *name;
    enum failure failure;
} kinds[] = {
    { "connect", FAILURE_CONNECT }, { "tls", FAILURE_TLS },           { "timeout", FAILURE_TIMEOUT },
    { "network", FAILURE_NETWORK }, { "internal", FAILURE_INTERNAL },
};

static bool retry_rules_is_status(struct str on)
{
    bool digits = on.n == 3 && on.p[0] >= '1' && on.p[0] <= '5';
    return digits && ((is_digit(on.p[1]) && is_digit(on.p[2])) || str_eq_nocase(str_sub(on, 1, 3), S("xx")));
}

static bool retry_rules_failure_kind(struct str on, enum failure *ret)
{
    for (size_t i = 0; i < array_count(kinds); i++) {
        if (str_eq_nocase(on, str_from(kinds[i].name))) {
            *ret = kinds[i].failure;
            return true;
        }
    }
    return false;
}

static bool retry_rules_matches(struct str on, const struct outcome *o)
{
    enum failure kind;
    if (retry_rules_failure_kind(on, &kind))
        return o->failure == kind;
    if (o->failure != FAILURE_HTTP || !retry_rules_is_status(on) || on.p[0] - '0' != o->http_status / 100)
        return false;
    return !is_digit(on.p[1]) || (on.p[1] - '0') * 10 + (on.p[2] - '0') == o->http_status % 100;
}

/* Reads rule i of the list, which was parsed. */
static enum err retry_rule_read(json_t *list, size_t i, struct arena *a, struct retry_rule *ret, struct error *e)
{
    *ret = (struct retry_rule){ .max_attempts = -1, .base_delay_ms = -1, .max_delay_ms = -1 };
    if (json_read(json_array_get(list, i), rule_fields, array_count(rule_fields), ret, a, e)) {
        char at[24];
        snprintf(at, sizeof at, "[%zu]", i);
        return error_in(e, at);
    }
    return ERR_OK;
}

static enum err retry_rule_check(json_t *list, size_t i, struct arena *a, struct error *e)
{
    struct retry_rule rule;
    if (retry_rule_read(list, i, a, &rule, e))
        return e->code;
    for (size_t k = 0; k < rule.on.n; k++) {
        struct str on = ((const struct str *)rule.on.v)[k];
        enum failure kind;
        char at[48];
        snprintf(at, sizeof at, "[%zu].on[%zu]", i, k);
        if (!retry_rules_is_status(on) && !retry_rules_failure_kind(on, &kind))
            return error_field(e, at,
                               "'" STR_FMT "' is neither a status (503, 5xx) nor one of connect, tls, timeout, network",
                               STR_ARG(on));
    }
    return ERR_OK;
}

enum err retry_rules_check(struct str rules, struct error *e)
{
    struct error inner = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, RULES_ARENA);
    enum err rc = json_parse(rules, &doc, &inner);
    if (rc == ERR_OK && (!json_is_array(doc.root) || json_array_size(doc.root) > RULES_MAX))
        rc = error_field(&inner, "", "must be a list of at most %d rules", RULES_MAX);
    for (size_t i = 0; rc == ERR_OK && i < json_array_size(doc.root); i++)
        rc = retry_rule_check(doc.root, i, &a, &inner);
    if (rc && e)
        *e = inner;
    return rc;
}

static bool retry_rule_matches(const struct retry_rule *rule, const struct outcome *o)
{
    for (size_t i = 0; i < rule->on.n; i++)
        if (retry_rules_matches(((const struct str *)rule->on.v)[i], o))
            return true;
    return false;
}

static void retry_rule_apply(const struct retry_rule *rule, struct retry_policy *p)
{
    if (rule->max_attempts > 0)
        p->max_attempts = (int)rule->max_attempts;
    if (rule->base_delay_ms > 0)
        p->base_delay_ms = rule->base_delay_ms;
    if (rule->max_delay_ms > 0)
        p->max_delay_ms = rule->max_delay_ms;
    p->max_delay_ms = max_of(p->max_delay_ms, p->base_delay_ms);
}

/* Rules that cannot be read were refused when the task was created; here they match nothing. */
struct retry_policy retry_policy_for(const struct retry_policy *p, const struct outcome *o, bool *ret_named)
{
    struct retry_policy answer = *p;
    *ret_named = false;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, RULES_ARENA);
    struct error e;
    if (p->rules.n == 0 || json_parse(p->rules, &doc, &e))
        return answer;
    for (size_t i = 0; i < json_array_size(doc.root) && !*ret_named; i++) {
        struct retry_rule rule;
        if (retry_rule_read(doc.root, i, &a, &rule, &e) == ERR_OK && retry_rule_matches(&rule, o)) {
            retry_rule_apply(&rule, &answer);
            *ret_named = true;
        }
    }
    return answer;
}
