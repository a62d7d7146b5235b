#pragma once
/* platform/zoneinfo_system.h - time zones from the system's tzdata, a directory of TZif files.
 *
 * Each zone is read when first asked for and kept. UTC is built in and needs no tzdata. The adapter reads no clock:
 * whoever owns a timer calls zoneinfo_system_refresh now and then (10 s is often enough). */
#include "port/zoneinfo.h"

/* NULL: the directory of $TZDIR if that is set, else /usr/share/zoneinfo. */
struct zoneinfo *zoneinfo_system_new(const char *directory);

/* Looks whether tzdata has changed on disk; if so all zones are read anew and the generation rises. */
void zoneinfo_system_refresh(struct zoneinfo *z);
