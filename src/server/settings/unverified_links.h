#pragma once
/* server/settings/unverified_links.h - links to other servers whose certificates are not checked, because a setting
 * says so: `sslmode` of PostgreSQL, `enable.ssl.certificate.verification` and `ssl.endpoint.identification.algorithm`
 * of Kafka. Redis and RabbitMQ have no such setting. They are told in the log at each start, in the status and in the
 * metrics. */
#include "base/buf.h"
#include "base/json/jsonw.h"
#include "server/brokers.h"
#include "server/settings/fleet_url.h"

enum { UNVERIFIED_LINKS_MAX = 6 + OPTION_LIST_MAX, UNVERIFIED_LINK_TEXT = 64 };

struct unverified_links {
    char names[UNVERIFIED_LINKS_MAX][UNVERIFIED_LINK_TEXT]; /* of the settings: "store", "brokers.orders" */
    size_t count;
};

/* Each looks at what it is given (NULL or empty: nothing) and adds the links that are not verified. */
void unverified_links_add_store(struct unverified_links *l, const char *setting, const char *url);
void unverified_links_add_fleet(struct unverified_links *l, const struct fleet_urls *urls);
void unverified_links_add_brokers(struct unverified_links *l, const struct brokers *brokers);

void unverified_links_warn(const struct unverified_links *l);                /* in the log */
void unverified_links_write(const struct unverified_links *l, struct jw *w); /* an array of their names */
void unverified_links_print_metrics(const struct unverified_links *l, struct buf *out);
