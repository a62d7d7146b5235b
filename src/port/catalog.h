#pragma once
/* port/catalog.h - what users set up besides tasks: few, small, named things, read often and changed seldom.
 *
 * One table for all of them: an entry is a tenant's, has a kind, a name and a version, and its content is a JSON text that
 * only its own module understands (core/sharing/queue_rules.h, api/resource/calendars.c …). The operation (OP_CATALOG) and the readers are the
 * store's; an entry's version is its ETag. */
#include "base/str.h"

#define CATALOG_KIND_MAP(X)                                                                                            \
    X(QUEUE) X(CALENDAR) X(TENANT) X(TENANT_NUMBER /* holds a number once given, so that it is given once */) X(JOB)
enum catalog_kind {
#define X(name) CATALOG_##name,
    CATALOG_KIND_MAP(X)
#undef X
};

enum { CATALOG_NAME_MAX = 128, CATALOG_DOC_MAX = 4 << 20, CATALOG_LIST_MAX = 1000 };

struct catalog_entry {
    int32_t tenant; /* tenants themselves, and what is Belfry's own: 0 */
    enum catalog_kind kind;
    struct str name;
    int64_t version; /* 1 for the first */
    struct str doc;
    int64_t created_ms, updated_ms;
};

struct catalog_entries {
    struct catalog_entry *v;
    size_t n;
};

/* Entries of one kind, by tenant and name, rising. */
struct catalog_filter {
    enum catalog_kind kind;
    bool all_tenants;
    int32_t tenant;
    int32_t after_tenant; /* with all_tenants, when after is not empty: that entry's */
    struct str after;     /* only names behind it; empty: from the first on */
    size_t limit;         /* at most CATALOG_LIST_MAX */
    bool unfinished;      /* JOBs of all tenants: those that are over may be left out, where that is cheaper */
};

struct catalog_page {
    struct catalog_entries entries;
    bool more;
};

/* Of a JOB: its doc says {"state": …} other than "RUNNING". */
bool catalog_job_is_over(struct str doc);
