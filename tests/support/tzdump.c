/* tzdump - what Belfry knows about time zones, line by line, for comparison with another implementation.
 *
 *   zone NAME           the zone that the next lines are about (prints nothing)
 *   spans FROM UNTIL    its spans there: "from offset dst abbreviation" a line, the first one cut to FROM, then "end"
 *   at INSTANT          "offset dst abbreviation"
 *   local SECOND        "unique|repeat|gap first last"
 *
 * Zones come from $TZDIR or the system. An unknown zone or line ends the program with 1. */
#include <inttypes.h>
#include <stdio.h>

#include "platform/zoneinfo_system.h"

static void print_clock(const struct tz_span *s)
{
    printf("%" PRId32 " %d %s\n", s->offset_s, s->dst, s->abbreviation);
}

static void print_spans(const struct tz *z, int64_t from, int64_t until)
{
    while (from < until) {
        struct tz_span s = tz_span_at(z, from);
        printf("%" PRId64 " ", from);
        print_clock(&s);
        from = s.until;
    }
    puts("end");
}

static void print_instants(const struct tz *z, int64_t local)
{
    static const char *const kinds[] = { [TZ_UNIQUE] = "unique", [TZ_REPEAT] = "repeat", [TZ_GAP] = "gap" };
    struct tz_instants i = tz_instants_of(z, local);
    printf("%s %" PRId64 " %" PRId64 "\n", kinds[i.kind], i.first, i.last);
}

static bool answer(struct zoneinfo *zones, struct tz **zone, const char *line)
{
    char name[128];
    int64_t a, b;
    struct error e = { 0 };
    if (sscanf(line, "zone %127s", name) == 1) {
        tz_unref(take(*zone));
        if (zoneinfo_get(zones, str_from(name), zone, &e) == ERR_OK)
            return true;
        fprintf(stderr, "tzdump: %s\n", e.text);
        return false;
    }
    if (*zone && sscanf(line, "at %" SCNd64, &a) == 1) {
        struct tz_span s = tz_span_at(*zone, a);
        print_clock(&s);
    } else if (*zone && sscanf(line, "local %" SCNd64, &a) == 1) {
        print_instants(*zone, a);
    } else if (*zone && sscanf(line, "spans %" SCNd64 " %" SCNd64, &a, &b) == 2) {
        print_spans(*zone, a, b);
    } else {
        fprintf(stderr, "tzdump: cannot read '%s'\n", line);
        return false;
    }
    return true;
}

int main(void)
{
    struct zoneinfo *zones = zoneinfo_system_new(NULL);
    struct tz *zone = NULL;
    char line[256];
    bool good = true;
    while (good && fgets(line, sizeof line, stdin))
        good = answer(zones, &zone, line);
    tz_unref(zone);
    zoneinfo_free(zones);
    return good ? 0 : 1;
}
