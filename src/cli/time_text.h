#pragma once
/* cli/time_text.h - times and durations as text: "in 5m", "3s ago", "2026-02-10 08:00:00Z", "Tue … CET". */
#include "base/buf.h"
#include "core/time/tz.h"

enum { TIME_TEXT = 64 };

/* "in 5m", "in 1h20m", "in 3d4h", "3s ago", "now" (within half a second): the two largest units that matter. */
void time_text_relative(int64_t at_ms, int64_t now_ms, char out[TIME_TEXT]);

/* "2026-02-10 08:00:00Z", with milliseconds if they are not 0. */
void time_text_utc(int64_t ms, char out[TIME_TEXT]);

/* "Tue 2026-02-10 09:00:00 CET"; local is local time in seconds since 1970-01-01 00:00 local. zone may be "". */
void time_text_wall(int64_t local, int millis, const char *zone, char out[TIME_TEXT]);
void time_text_local(const struct tz *zone, int64_t ms, char out[TIME_TEXT]);

/* "850ms", "1.2s", "2m5s". */
void time_text_took(int64_t ms, char out[TIME_TEXT]);
