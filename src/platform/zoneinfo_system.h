#pragma once
/* platform/zoneinfo_system.h - time zones from the system's tzdata, a directory of TZif files.
 *
 * Each zone is read at its first use and cached. UTC is built in and needs no tzdata. The adapter reads no clock: a
 * zone stays as it was read until zoneinfo_system_refresh is called. No process calls it, so new tzdata takes effect at
 * the next start. Any thread may call. */
#include "port/zoneinfo.h"

/* directory NULL: $TZDIR if set, else /usr/share/zoneinfo. */
struct zoneinfo *zoneinfo_system_new(const char *directory);

/* If tzdata has changed on disk, drops all cached zones and increments the generation. */
void zoneinfo_system_refresh(struct zoneinfo *z);
