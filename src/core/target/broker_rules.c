#include "core/target/broker_rules.h"

#include <stdio.h>

enum { NAME_MAX = MESSAGE_TARGET_DESTINATION_MAX + 16 };

static bool broker_rules_is_boundary(char c)
{
    return c == '.' || c == ':' || c == '/';
}

enum err broker_rules_check_destinations(struct str list, struct error *e)
{
    struct str rest = list, one;
    while (str_cut(&rest, ',', &one)) {
        one = str_trim(one);
        size_t star = str_find(one, '*', 0);
        if (!one.n)
            return error_set(e, ERR_INVALID, "contains an empty entry; separate entries by one comma");
        if (star < one.n && (star + 1 < one.n || (star > 0 && !broker_rules_is_boundary(one.p[star - 1]))))
            return error_set(e, ERR_INVALID, "may have a * only at the end, after a dot, colon or slash: orders.*");
    }
    return ERR_OK;
}

static bool broker_rules_lists_tenant(struct str list, struct str tenant)
{
    struct str rest = list.n ? list : S("default"), one;
    while (str_cut(&rest, ',', &one)) {
        one = str_trim(one);
        if (str_eq(one, S("*")) || (tenant.n && str_eq(one, tenant)))
            return true;
    }
    return false;
}

struct destination {
    struct str name;
    bool is_usual; /* a stream or an exchange; else the name begins with its kind: "list:x", "queue:x" */
};

/* One name for what can be written in two ways: "stream:x" is "x" of Redis, "exchange:x" is "x" of RabbitMQ. But
 * "stream:list:x" is not "list:x". */
static struct destination broker_rules_parse(enum message_target_broker kind, struct str text)
{
    struct str usual = kind == MESSAGE_TARGET_REDIS  ? S("stream:")
                       : kind == MESSAGE_TARGET_AMQP ? S("exchange:")
                                                     : S("");
    struct str other = kind == MESSAGE_TARGET_REDIS ? S("list:") : kind == MESSAGE_TARGET_AMQP ? S("queue:") : S("");
    if (usual.n && str_starts(text, usual))
        return (struct destination){ str_sub(text, usual.n, text.n), true };
    return (struct destination){ text, !other.n || !str_starts(text, other) };
}

/* Where the message goes. RabbitMQ's exchange without a name hands it to the queue that the key names. */
static struct destination broker_rules_destination(enum message_target_broker kind, const struct message_target *t,
                                                   char out[NAME_MAX])
{
    struct destination d = broker_rules_parse(kind, t->destination);
    if (kind != MESSAGE_TARGET_AMQP || d.name.n)
        return d;
    int n = snprintf(out, NAME_MAX, "queue:" STR_FMT, STR_ARG(t->key));
    return (struct destination){ { out, min_of((size_t)n, (size_t)NAME_MAX - 1) }, false };
}

static bool broker_rules_lists_destination(enum message_target_broker kind, struct str list, struct destination d)
{
    struct str rest = list, one;
    while (str_cut(&rest, ',', &one)) {
        struct destination rule = broker_rules_parse(kind, str_trim(one));
        bool open = rule.name.n && rule.name.p[rule.name.n - 1] == '*';
        bool fits = open ? str_starts(d.name, str_sub(rule.name, 0, rule.name.n - 1)) : str_eq(d.name, rule.name);
        if (fits && (rule.is_usual == d.is_usual || str_eq(str_trim(one), S("*"))))
            return true;
    }
    return list.n == 0;
}

/* Redis Cluster keeps keys with the same {…} together, and so Belfry's may begin with a brace. */
static bool broker_rules_is_own(const struct broker_rules *rules, struct str destination)
{
    static const struct str kinds[] = { { "list:", 5 }, { "queue:", 6 }, { "{", 1 } };
    struct str name = destination;
    for (size_t i = 0; i < array_count(kinds); i++)
        if (str_starts(name, kinds[i]))
            name = str_sub(name, kinds[i].n, name.n);
    for (size_t i = 0; i < array_count(rules->own); i++) {
        struct str own = rules->own[i];
        if (own.n && str_starts(name, own) &&
            (name.n == own.n || broker_rules_is_boundary(name.p[own.n]) || name.p[own.n] == '}'))
            return true;
    }
    return false;
}

static const struct broker_rule *broker_rules_find(const struct broker_rules *rules, const struct message_target *t)
{
    for (size_t i = 0; t->kind == MESSAGE_TARGET_NAMED && i < rules->n; i++)
        if (str_eq(rules->v[i].name, t->broker))
            return &rules->v[i];
    return NULL;
}

enum err broker_rules_check(const struct broker_rules *rules, const struct message_target *target, struct str tenant,
                            struct error *e)
{
    char text[NAME_MAX];
    if (!rules)
        return ERR_OK;
    const struct broker_rule *rule = broker_rules_find(rules, target);
    enum message_target_broker kind = rule ? rule->kind : target->kind;
    struct destination to = broker_rules_destination(kind, target, text);
    /* to other tenants than `default`, a broker that does not exist is one that is not open: its name is nothing for
     * them. A node without brokers leaves it to the workers. */
    bool is_hidden = !rule && rules->n && kind == MESSAGE_TARGET_NAMED && !str_eq(tenant, S("default"));
    if (is_hidden || (rule && !broker_rules_lists_tenant(rule->tenants, tenant)))
        return error_field(e, "broker", "'" STR_FMT "' is not open to this tenant", STR_ARG(target->broker));
    if (broker_rules_is_own(rules, to.name))
        return error_field(e, "destination", "belongs to Belfry itself");
    if (rule && !broker_rules_lists_destination(kind, rule->destinations, to))
        return error_field(e, "destination", "is not one that the broker '" STR_FMT "' is open for",
                           STR_ARG(target->broker));
    return ERR_OK;
}
