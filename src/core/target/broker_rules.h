#pragma once
/* core/target/broker_rules.h - who may send what to a named broker: the settings brokers.NAME.tenants and
 * brokers.NAME.destinations. Nobody may send to queues, streams and topics of Belfry itself: a message there could
 * forge a task or an outcome. */
#include "core/target/message_target.h"

struct broker_rule {
    struct str name;
    enum message_target_broker kind; /* by its address */
    struct str tenants;              /* names, separated by commas; "*": all; empty: `default` */
    struct str destinations;         /* separated by commas; "orders.*" ends at a dot, colon or slash; empty: all */
};

struct broker_rules {
    const struct broker_rule *v;
    size_t n;
    struct str own[2]; /* what the names of Belfry's own queues and topics begin with; empty: none */
};

/* ERR_INVALID names the field. A named broker without a rule is not judged here. rules may be NULL: all is allowed. */
enum err broker_rules_check(const struct broker_rules *rules, const struct message_target *target, struct str tenant,
                            struct error *e) must_use;

/* Whether a list of destinations is well formed. */
enum err broker_rules_check_destinations(struct str list, struct error *e) must_use;
