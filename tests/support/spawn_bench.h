#pragma once
/* spawn_bench.h - times and zones for tests of core/task/spawn. */
#include "check.h"
#include "platform/zoneinfo_system.h"

#define NOW  1772532000000LL /* 2026-03-03T10:00:00Z */
#define HOUR 3600000LL
#define DAY  (24 * HOUR)

enum { SECOND = 1000, AHEAD = 10000, ARENA = 4 << 20 };

static struct zoneinfo *zones;
static struct tz *utc, *berlin;

static int setup(void **state)
{
    (void)state;
    struct error e;
    zones = zoneinfo_system_new(NULL);
    return zoneinfo_get(zones, S("UTC"), &utc, &e) || zoneinfo_get(zones, S("Europe/Berlin"), &berlin, &e) ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    tz_unref(utc);
    tz_unref(berlin);
    zoneinfo_free(zones);
    return 0;
}
