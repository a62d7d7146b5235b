#pragma once
/* cli/command/next/calendar_file.h - the business calendar of `belfry next`, read from a file: without a server there
 * is no catalog that would have it. One thread. */
#include "cli/cli.h"
#include "core/time/recurrence.h"

struct next_calendar {
    struct arena memory;
    struct calendar calendar;
};

/* Reads --calendar, --calendar-policy and --no-weekends into the rule, which borrows from *into. Without --calendar the
 * rule is unchanged. rule->zone decides the date of an event that is given in UTC. */
enum err next_calendar_read(struct cli *cli, const struct options *o, struct next_calendar *into,
                            struct recurrence *rule, struct error *e) must_use;
void next_calendar_release(struct next_calendar *c);
