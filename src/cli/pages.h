#pragma once
/* cli/pages.h - reads a list of the API page by page, following cursors until the limit is reached. */
#include "cli/client.h"

enum { PAGES_LIMIT_DEFAULT = 20, PAGES_LIMIT_MAX = 1000 };

struct pages {
    struct client *client;
    const char *path;   /* with its filters: "/v1/tasks?status=PAUSED" */
    const char *member; /* member of the answer with the rows: "tasks" */
    int64_t limit;      /* how many rows at most; INT64_MAX: all */
    bool unlimited;     /* the endpoint has no `limit` parameter: it returns the whole list */
    const char *about;  /* for errors, see struct client_request */
    bool quiet;         /* likewise */
    /* Whether a row counts; NULL: all do. The others are passed over. */
    bool (*wanted)(void *context, const json_t *item);
    /* Called for each row: parsed, and as the server wrote it. False: stop. */
    bool (*row)(void *context, const json_t *item, struct str text);
    /* Called after each page; may be NULL. False: stop. */
    bool (*page)(void *context);
    void *context;
    bool has_more; /* result: the server has more rows than were read */
};

enum exit_code pages_walk(struct pages *p) must_use;

/* The options --limit and --all, and the limit that they mean. */
enum { PAGE_OPTION_COUNT = 2 };
extern const struct option page_options[PAGE_OPTION_COUNT];
int64_t pages_limit(const struct options *o);
