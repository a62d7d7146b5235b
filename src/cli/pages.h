#pragma once
/* cli/pages.h - a list of the API, page by page: cursors are followed until enough was seen. */
#include "cli/client.h"

enum { PAGES_LIMIT_DEFAULT = 20, PAGES_LIMIT_MAX = 1000 };

struct pages {
    struct client *client;
    const char *path;   /* with its filters: "/v1/tasks?status=PAUSED" */
    const char *member; /* of the answer that holds the rows: "tasks" */
    int64_t limit;      /* how many rows at most; INT64_MAX: all */
    bool unlimited;     /* the list takes no limit: it comes whole */
    const char *about;  /* for errors, see struct call */
    /* One row: parsed, and as the server wrote it. False: enough. */
    bool (*row)(void *context, const json_t *item, struct str text);
    /* After each page; may be NULL. False: enough. */
    bool (*page)(void *context);
    void *context;
    bool has_more; /* set: the server has more than was asked for */
};

enum exit_code pages_walk(struct pages *p) must_use;

/* --limit and --all, and how many they come to. */
enum { PAGE_OPTION_COUNT = 2 };
extern const struct option page_options[PAGE_OPTION_COUNT];
int64_t pages_limit(const struct options *o);
