#pragma once
/* broker/amqp/url.h - the address of a broker, taken apart (broker/amqp/amqp.h says what may stand in it). */
#include "base/str.h"

enum { RABBIT_HOSTS_MAX = 16, RABBIT_PREFIX_MAX = 64 };

struct rabbit_host {
    char *name;
    int port;
};

struct rabbit_url {
    bool tls;
    char *user, *password, *vhost, *prefix, *cacert, *cert, *key, *tenants;
    struct rabbit_host hosts[RABBIT_HOSTS_MAX];
    size_t host_count;
    int64_t heartbeat_ms, consumer_timeout_ms;
    bool classic, exact_priorities;
};

enum err rabbit_url_parse(struct str text, struct rabbit_url *ret, struct error *e) must_use;
void rabbit_url_release(struct rabbit_url *u);

/* Whether a tenant has queues of its own there. */
bool rabbit_url_parts_tenant(const struct rabbit_url *u, struct str tenant);
