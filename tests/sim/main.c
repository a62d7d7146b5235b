/* sim SEED [-v] [--plant NAME]      one seed; -v tells all that happens
 * sim --seeds A-B [--plant NAME]    many, and what was counted; the first failing seed
 * sim --plants                      each planted bug over many seeds: it must be caught
 * sim --tap A-B                     as --seeds, and from 1 on as --plants too, in TAP: for ./test */
#include <stdlib.h>

#include "platform/zoneinfo_system.h"
#include "sim.h"

enum { PLANT_SEEDS = 250, TAP_STEP = 100, TOLD_MAX = 12, COVERAGE_SEEDS = 299, COVERAGE_LINES = 5 };

struct options {
    uint64_t first, last;
    enum plant plant;
    bool verbose, plants, tap;
};

static int by_size(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int64_t breaches(const struct sim_stats *st)
{
    int64_t sum = 0;
    for (int i = 0; i < BREACH_COUNT; i++)
        sum += st->breaches[i];
    return sum;
}

static void print_stats(struct sim_stats *st)
{
    printf("# seeds %lld, tasks %lld, acknowledged %lld, refused %lld, calls %lld, steps %lld\n", (long long)st->seeds,
           (long long)st->tasks, (long long)st->acknowledged, (long long)st->refused, (long long)st->calls,
           (long long)st->steps);
    printf("# faults:");
    for (int i = 0; i < FAULT_COUNT; i++)
        printf(" %s %lld%s", fault_text((enum fault)i), (long long)st->faults[i], i + 1 < FAULT_COUNT ? "," : "\n");
    printf("# gates: rules set %lld", (long long)st->rules);
#define X(metric, text) printf(", %s %lld", text, (long long)st->passed_##metric);
    PASS_MAP(X)
#undef X
    printf(", poisoned %lld, children %lld, runs %lld, retried %lld, rerun %lld with %lld copies\n",
           (long long)st->poisoned, (long long)st->children, (long long)st->runs, (long long)st->retried,
           (long long)st->rerun, (long long)st->copied);
    if (st->late_count)
        qsort(st->late_ms, st->late_count, sizeof *st->late_ms, by_size);
    size_t n = st->late_count;
    printf("# lost %lld, duplicated %lld (in flight at a crash), early %lld, late p50 %d ms, p99 %d ms, max %d ms\n",
           (long long)st->breaches[BREACH_LOST], (long long)st->duplicated, (long long)st->breaches[BREACH_EARLY],
           n ? st->late_ms[n / 2] : 0, n ? st->late_ms[n - n / 100 - 1] : 0, n ? st->late_ms[n - 1] : 0);
    for (int i = 0; i < BREACH_COUNT; i++)
        if (st->breaches[i])
            printf("# %s: %lld\n", breach_text((enum breach)i), (long long)st->breaches[i]);
}

/* Returns the first failing seed, after printing its breach; 0: none failed. */
static uint64_t run_seeds(uint64_t first, uint64_t last, const struct options *o, struct zoneinfo *zones,
                          struct sim_stats *st, char first_breach[512])
{
    uint64_t failed = 0;
    int told = 0;
    for (uint64_t seed = first; seed <= last; seed++) {
        char text[512];
        sim_run(seed, o->plant, o->verbose, zones, st, text);
        if (text[0] && told++ < TOLD_MAX)
            printf("# seed %llu: %s\n", (unsigned long long)seed, text);
        if (text[0] && !failed) {
            failed = seed;
            memcpy(first_breach, text, sizeof text);
        }
    }
    return failed;
}

/* Seeds at which bugs that are caught late were caught before: these are tried first. If a change of the simulator
 * moves them, all seeds are tried, which takes a minute. */
static const uint64_t caught_before[PLANT_COUNT] = {
    [PLANT_LOST_MISSED] = 98,     [PLANT_AMO_AGAIN] = 15,     [PLANT_DOUBLE_KEY] = 14,
    [PLANT_SLEEPY] = 23,          [PLANT_DEAF] = 8,           [PLANT_GENEROUS] = 63,
    [PLANT_CROWDED] = 24,         [PLANT_HASTY] = 8,          [PLANT_UNDYING] = 36,
    [PLANT_LOST_WAKE] = 121,      [PLANT_UNCOUNTED] = 83,     [PLANT_NO_SELF_FENCE] = 993,
    [PLANT_NO_GAP] = 6,           [PLANT_NO_BURIAL] = 9,      [PLANT_SLOW_BURIAL] = 15,
    [PLANT_OWN_CLOCK] = 6,        [PLANT_UNDEAD] = 243,       [PLANT_HOARDER] = 6,
    [PLANT_HAND_EARLY] = 90,      [PLANT_LOST_PUSH] = 15,     [PLANT_SURE] = 175,
    [PLANT_ACK_FIRST] = 60,       [PLANT_NOT_PASSED] = 305,   [PLANT_HELD_FOREVER] = 15,
    [PLANT_NO_LAPSE] = 15,        [PLANT_REDELIVER] = 15,     [PLANT_SAME_EPOCH] = 50,
    [PLANT_DEAF_TO_JOINS] = 10,   [PLANT_ONE_BOUND] = 10,     [PLANT_WRONG_CLASS] = 150,
    [PLANT_PARKED_SLOT] = 395,    [PLANT_ASKS_DROPPED] = 255, [PLANT_NO_KEEP] = 59,
    [PLANT_SLOT_AT_SETTLE] = 213, [PLANT_NO_RELEASE] = 9,     [PLANT_DUE_ORDER] = 59,
    [PLANT_KEY_AT_CLAIM] = 24,    [PLANT_ANY_HOST] = 24,      [PLANT_BLAMED_ON_SUCCESS] = 80,
    [PLANT_STEP_LOST] = 7,        [PLANT_STEP_DOUBLED] = 7,   [PLANT_STEP_EARLY] = 62,
    [PLANT_SKIP_KEPT] = 7,        [PLANT_EARLY_SIGNAL] = 62,  [PLANT_WIDE_WINDOW] = 51,
    [PLANT_RESUME_PAST] = 370,    [PLANT_OPENED_TWICE] = 7,   [PLANT_FORGOTTEN] = 62,
    [PLANT_UNDO_ORDER] = 62,      [PLANT_RETRY_DONE] = 7,     [PLANT_RERUN_SHORT] = 7,
    [PLANT_RERUN_LONG] = 84,      [PLANT_ABORT_RECORD] = 62,
};

/* Caught means that its breaches include the one that the bug is bound to cause. */
static bool caught_at(enum plant p, uint64_t seed, struct zoneinfo *zones)
{
    struct sim_stats st = { 0 };
    char text[512];
    sim_run(seed, p, false, zones, &st, text);
    free(st.late_ms);
    return st.breaches[plant_breach(p)] > 0;
}

static bool plant_is_caught(enum plant p, struct zoneinfo *zones, uint64_t *ret_seed)
{
    *ret_seed = caught_before[p];
    bool caught = *ret_seed && caught_at(p, *ret_seed, zones);
    for (uint64_t seed = 1; seed <= PLANT_SEEDS && !caught; seed++) {
        caught = caught_at(p, seed, zones);
        *ret_seed = seed;
    }
    return caught;
}

static int run_plants(struct zoneinfo *zones, int *number)
{
    int missed = 0;
    for (int p = PLANT_NONE + 1; p < PLANT_COUNT; p++) {
        uint64_t seed;
        bool caught = plant_is_caught((enum plant)p, zones, &seed);
        missed += !caught;
        printf("%sok %d - planted bug '%s' is caught (seed %llu: %s)\n", caught ? "" : "not ", ++*number,
               plant_name((enum plant)p), (unsigned long long)seed, breach_text(plant_breach((enum plant)p)));
    }
    return missed;
}

/* What must have happened in each hundred seeds, on average: an oracle that was never asked proves nothing. */
static int run_coverage(const struct sim_stats *st, int *number)
{
    const struct {
        const char *what;
        int64_t is, least;
    } all[] = {
        { "runs of workflows", st->runs, 30 },
        { "runs that began again", st->retried, 4 },
        { "reruns of runs", st->rerun, 3 },
        { "steps that a rerun copied", st->copied, 2 },
        { "tasks that wait for others", st->children, 10 },
    };
    int missed = 0;
    for (size_t i = 0; i < array_count(all); i++) {
        bool enough = all[i].is * 100 >= all[i].least * st->seeds;
        missed += !enough;
        printf("%sok %d - enough %s: %lld\n", enough ? "" : "not ", ++*number, all[i].what, (long long)all[i].is);
    }
    return missed;
}

static int run_tap(const struct options *o, struct zoneinfo *zones)
{
    struct sim_stats st = { 0 };
    int number = 0;
    int steps = (int)((o->last - o->first) / TAP_STEP + 1);
    bool plants = o->first == 1, covers = o->last - o->first >= COVERAGE_SEEDS;
    printf("1..%d\n", steps + (plants ? PLANT_COUNT - 1 : 0) + (covers ? COVERAGE_LINES : 0));
    int failures = plants ? run_plants(zones, &number) : 0;
    for (uint64_t first = o->first; first <= o->last; first += TAP_STEP) {
        uint64_t last = min_of(first + TAP_STEP - 1, o->last);
        char text[512];
        uint64_t failed = run_seeds(first, last, o, zones, &st, text);
        failures += failed != 0;
        printf("%sok %d - seeds %llu to %llu\n", failed ? "not " : "", ++number, (unsigned long long)first,
               (unsigned long long)last);
        fflush(stdout);
    }
    failures += covers ? run_coverage(&st, &number) : 0;
    print_stats(&st);
    free(st.late_ms);
    return failures;
}

static int run_plain(const struct options *o, struct zoneinfo *zones)
{
    struct sim_stats st = { 0 };
    char text[512];
    uint64_t failed = run_seeds(o->first, o->last, o, zones, &st, text);
    print_stats(&st);
    if (failed)
        printf("first failing seed %llu: %s\n", (unsigned long long)failed, text);
    int64_t n = breaches(&st);
    free(st.late_ms);
    return n ? 1 : 0;
}

static bool read_range(const char *text, struct options *o)
{
    char *end;
    o->first = o->last = strtoull(text, &end, 10);
    if (*end == '-')
        o->last = strtoull(end + 1, &end, 10);
    return *end == '\0' && o->first > 0 && o->last >= o->first;
}

static bool read_plant(const char *name, struct options *o)
{
    for (int p = 0; p < PLANT_COUNT; p++) {
        if (strcmp(name, plant_name((enum plant)p)) == 0) {
            o->plant = (enum plant)p;
            return true;
        }
    }
    return false;
}

static bool read_options(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "-v") == 0) {
            o->verbose = true;
        } else if (strcmp(argv[i], "--plants") == 0) {
            o->plants = true;
        } else if (strcmp(argv[i], "--tap") == 0 || strcmp(argv[i], "--seeds") == 0) {
            o->tap = o->tap || strcmp(argv[i++], "--tap") == 0;
            if (!read_range(value, o))
                return false;
        } else if (strcmp(argv[i], "--plant") == 0) {
            i++;
            if (!read_plant(value, o))
                return false;
        } else if (!read_range(argv[i], o)) {
            return false;
        }
    }
    return o->first || o->plants;
}

int main(int argc, char **argv)
{
    struct options o = { 0 };
    if (!read_options(argc, argv, &o)) {
        fprintf(stderr, "usage: sim SEED [-v] [--plant NAME] | --seeds A-B [--plant NAME] | --plants | --tap A-B\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct zoneinfo *zones = zoneinfo_system_new(NULL);
    int number = 0;
    int status = o.plants ? run_plants(zones, &number) : o.tap ? run_tap(&o, zones) : run_plain(&o, zones);
    zoneinfo_free(zones);
    return status ? 1 : 0;
}
