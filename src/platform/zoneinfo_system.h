#pragma once
/* platform/zoneinfo_system.h - time zones from the system's tzdata, a directory of TZif files.
 *
 * Each zone is read at its first use and cached. UTC is built in and needs no tzdata. A zone stays as
 * it was read: new tzdata takes effect at the next start of the process. Any thread may call. */
#include "port/zoneinfo.h"

/* directory NULL: $TZDIR if set, else /usr/share/zoneinfo. */
struct zoneinfo *zoneinfo_system_new(const char *directory);
