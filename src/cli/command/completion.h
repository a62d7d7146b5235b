#pragma once
/* cli/command/completion.h - names that only a server knows, offered while one types: ids of tasks, queues, calendars, tenants, keys. */
#include "cli/cli.h"

/* Told each candidate and what it is; texts may be anything that users wrote. */
struct completion_callback {
    void (*offer)(void *context, struct str name, struct str what);
    void *context;
};

/* For the last word of a command line, `belfry` itself not among them. flag: the option whose value it is, or NULL. Asks for a fifth of a
 * second at most, and says nothing when there is no answer. */
void completion_names(struct cli *cli, const struct str *words, size_t count, const char *flag,
                      const struct completion_callback *to);
