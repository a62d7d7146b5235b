#pragma once
/* cli/command/completion.h - completion of names that the server knows: ids of tasks, queues, calendars, tenants,
 * keys. */
#include "cli/cli.h"

/* Called for each candidate with its description. Both are user data and may contain any characters. */
struct completion_callback {
    void (*offer)(void *context, struct str name, struct str what);
    void *context;
};

/* Completes the last word of a command line (without `belfry`). flag: the option whose value is typed, or NULL.
 * Waits at most 200 ms for the server; if that does not answer, offers nothing and prints no error. */
void completion_names(struct cli *cli, const struct str *words, size_t count, const char *flag,
                      const struct completion_callback *to);
