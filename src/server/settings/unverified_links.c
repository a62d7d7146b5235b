#include "server/settings/unverified_links.h"

#include <stdio.h>

#include "base/log.h"
#include "store/postgres/store_postgres.h"

enum { VALUE_MAX = 16 };

static void unverified_links_add(struct unverified_links *l, const char *prefix, struct str name)
{
    if (l->count < UNVERIFIED_LINKS_MAX)
        snprintf(l->names[l->count++], UNVERIFIED_LINK_TEXT, "%s" STR_FMT, prefix, STR_ARG(name));
}

/* The values are those that librdkafka reads as "no". */
static bool unverified_links_is_kafka(struct str url)
{
    static const char *const off[][2] = {
        { "enable.ssl.certificate.verification", "false" },
        { "enable.ssl.certificate.verification", "f" },
        { "enable.ssl.certificate.verification", "0" },
        { "ssl.endpoint.identification.algorithm", "none" },
    };
    char value[VALUE_MAX];
    if (!str_starts(url, S("kafka://")))
        return false;
    for (size_t i = 0; i < array_count(off); i++)
        if (str_url_parameter(url, off[i][0], value, sizeof value) &&
            str_eq_nocase(str_from(value), str_from(off[i][1])))
            return true;
    return false;
}

void unverified_links_add_store(struct unverified_links *l, const char *setting, const char *url)
{
    if (url && store_postgres_is_unverified(url))
        unverified_links_add(l, "", str_from(setting));
}

void unverified_links_add_fleet(struct unverified_links *l, const struct fleet_urls *urls)
{
    if (urls && unverified_links_is_kafka(buf_str(&urls->events)))
        unverified_links_add(l, "", S("events"));
}

void unverified_links_add_brokers(struct unverified_links *l, const struct brokers *brokers)
{
    for (size_t i = 0; brokers && i < brokers->n; i++)
        if (unverified_links_is_kafka(brokers->v[i].url))
            unverified_links_add(l, "brokers.", brokers->v[i].name);
}

void unverified_links_warn(const struct unverified_links *l)
{
    for (size_t i = 0; i < l->count; i++) {
        bool is_store = str_starts(str_from(l->names[i]), S("store"));
        log_warn("tls_unverified", kv_cstr("link", l->names[i]),
                 kv_cstr("remedy", is_store ? "set sslmode=verify-full, and sslrootcert if the CA is your own"
                                            : "remove enable.ssl.certificate.verification and "
                                              "ssl.endpoint.identification.algorithm from the URL, and set "
                                              "ssl.ca.location if the CA is your own"));
    }
}

void unverified_links_write(const struct unverified_links *l, struct jw *w)
{
    jw_array(w);
    for (size_t i = 0; i < l->count; i++)
        jw_str(w, str_from(l->names[i]));
    jw_array_end(w);
}

void unverified_links_print_metrics(const struct unverified_links *l, struct buf *out)
{
    if (l->count)
        buf_printf(out, "# HELP belfry_tls_unverified_links 1 for a link to another server whose certificate is not "
                        "checked\n# TYPE belfry_tls_unverified_links gauge\n");
    for (size_t i = 0; i < l->count; i++)
        buf_printf(out, "belfry_tls_unverified_links{link=\"%s\"} 1\n", l->names[i]);
}
