#pragma once
/* broker/amqp/url.h - the address of a RabbitMQ broker.
 *
 *   amqp://user:password@host:5672,other:5672/vhost?prefix=belfry&heartbeat=3s
 *
 * amqps:// uses TLS. If the address has several hosts, the first one that answers is used. Percent escapes are decoded.
 *
 *  prefix            starts the name of every queue and exchange                                       belfry
 *  heartbeat         both sides close a connection that is silent for twice this long                  3s
 *  consumer_timeout  the broker's consumer_timeout: how long a worker may keep a delivery; 0s: no end  30m
 *  queues            quorum or classic; classic is also used if the broker has no quorum queues        quorum
 *  tenants           names of the tenants that have queues of their own; * all, - none                 *
 *  priorities        class: one queue for each priority class; exact: one for each priority number     class
 *  cacert            PEM file of the CA that signed the broker's certificate    /etc/ssl/certs/ca-certificates.crt
 *  cert, key         PEM files of the client's certificate and key
 *  auth_mechanism    plain: user and password; external: the client's certificate says who it is       plain */
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
    bool classic, exact_priorities, by_certificate;
};

enum err rabbit_url_parse(struct str text, struct rabbit_url *ret, struct error *e) must_use;
/* The same, and checks that the files of an amqps:// address can be used. The error names cacert, cert or key. */
enum err rabbit_url_open(struct str text, struct rabbit_url *ret, struct error *e) must_use;
void rabbit_url_release(struct rabbit_url *u);

/* Whether a tenant has queues of its own (parameter `tenants`). */
bool rabbit_url_separates_tenant(const struct rabbit_url *u, struct str tenant);
