#pragma once
/* port/catalog.h - what users set up besides tasks: few, small, named things that are read often and changed seldom.
 *
 * One table holds all of them. An entry belongs to a tenant and has a kind, a name and a version. Its content is a JSON
 * text that only its own module understands (core/sharing/queue_rules.h, api/resource/calendars.c …). The operation
 * (OP_CATALOG) and the readers are the store's; an entry's version is its ETag. */
#include "base/str.h"

#define CATALOG_KIND_MAP(X)                                                                                            \
    X(QUEUE)                                                                                                           \
    X(CALENDAR)                                                                                                        \
    X(TENANT)                                                                                                          \
    X(TENANT_NUMBER /* reserves a number, so that no two tenants get it */)                                            \
    X(JOB) X(NOTIFICATION /* a setting */) X(SIGNING_KEY)
enum catalog_kind {
#define X(name) CATALOG_##name,
    CATALOG_KIND_MAP(X)
#undef X
};

enum {
#define X(name) +1
    CATALOG_KINDS = 0 CATALOG_KIND_MAP(X)
#undef X
};

enum { CATALOG_NAME_MAX = 128, CATALOG_DOC_MAX = 4 << 20, CATALOG_LIST_MAX = 1000 };

struct catalog_entry {
    int32_t tenant; /* 0: of tenants themselves, and of Belfry's own entries */
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

/* Entries of one kind, by tenant and name, ascending. */
struct catalog_filter {
    enum catalog_kind kind;
    bool all_tenants;
    int32_t tenant;
    int32_t after_tenant; /* with all_tenants, if after is not empty: the tenant of that entry */
    struct str after;     /* only names after it; empty: from the first on */
    size_t limit;         /* at most CATALOG_LIST_MAX */
    bool unfinished;      /* JOBs of all tenants: finished ones may be left out, if that is cheaper */
};

struct catalog_page {
    struct catalog_entries entries;
    bool more;
};

/* Whether the doc of a JOB says {"state": …} other than "RUNNING". */
bool catalog_job_is_over(struct str doc);
