/* Measures the time core: next occurrence of common and of difficult rules, on one core. Prints figures
 * (docs/BENCHMARKS.md); it does not pass or fail. Build it optimised:
 *
 *   meson setup build --buildtype=release && ninja -C build bench_recurrence */
#include <stdio.h>
#include <stdlib.h>

#include "base/rfc3339.h"
#include "core/time/recurrence.h"
#include "platform/clock_system.h"
#include "platform/zoneinfo_system.h"

enum { ROUNDS = 3 };
static const int64_t ROUND_NS = 200000000;

static const struct {
    const char *expression, *zone;
} rows[] = {
    { "* * * * *", "UTC" },
    { "*/5 * * * *", "Europe/Berlin" },
    { "0 8 * * MON-FRI", "Europe/Berlin" },
    { "30 2 * * *", "America/New_York" },
    { "0 0 1 * *", "Asia/Tokyo" },
    { "0 9 LW * *", "Europe/Berlin" },
    { "0 12 * * FRI#2", "America/Sao_Paulo" },
    { "15 10 29 2 *", "Europe/Berlin" },
    { "0 0 29 2 MON", "Europe/Berlin" },
    { "0 0 31 */2 *", "Europe/Berlin" },
};

static int64_t start_of(int64_t i)
{
    return 1767225600000 + i * 7919 * 1000 % (20LL * 365 * DAY_MS); /* between 2026 and 2046, not in order */
}

/* Answers a second, the best of several rounds. */
static double rate(const struct recurrence *r, int64_t *checksum)
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t begun = clock_steady_ns(clock_system()), now = begun, n = 0;
        for (; now - begun < ROUND_NS; now = clock_steady_ns(clock_system())) {
            for (int i = 0; i < 1000; i++, n++) {
                struct occurrence o;
                *checksum ^= recurrence_next(r, start_of(n), &o) ? o.at_ms : 1;
            }
        }
        best = max_of(best, (double)n * 1e9 / (double)(now - begun));
    }
    return best;
}

static double slowest_us(const struct recurrence *r)
{
    double worst = 0;
    for (int64_t i = 0; i < 2000; i++) {
        double best = 1e9; /* the best of three, so that other load of the machine matters less */
        for (int again = 0; again < 3; again++) {
            struct occurrence o;
            int64_t begun = clock_steady_ns(clock_system());
            (void)recurrence_next(r, start_of(i), &o);
            best = min_of(best, (double)(clock_steady_ns(clock_system()) - begun) / 1000);
        }
        worst = max_of(worst, best);
    }
    return worst;
}

int main(void)
{
    struct zoneinfo *zones = zoneinfo_system_new(NULL);
    int64_t checksum = 0;
    printf("%-18s %-20s %14s %12s\n", "expression", "zone", "answers/s", "slowest us");
    for (size_t i = 0; i < array_count(rows); i++) {
        struct error e;
        struct tz *zone = NULL;
        struct recurrence r = { .kind = RECUR_CRON, .end_ms = INT64_MAX };
        if (zoneinfo_get(zones, str_from(rows[i].zone), &zone, &e) ||
            cron_parse(str_from(rows[i].expression), 0, &r.cron, &e)) {
            fprintf(stderr, "%s: %s\n", rows[i].expression, e.text);
            return 1;
        }
        r.zone = zone;
        printf("%-18s %-20s %14.0f %12.2f\n", rows[i].expression, rows[i].zone, rate(&r, &checksum), slowest_us(&r));
        tz_unref(zone);
    }
    printf("checksum %llx\n", (unsigned long long)checksum);
    zoneinfo_free(zones);
    return 0;
}
