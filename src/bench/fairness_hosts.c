/* Part `hosts`: 2,500 webhooks of priority 0 to one host are due at once, and each takes 10 s. The host gets fewer
 * calls at once than the node has slots. Beside them start no-op tasks of priority 9, 100 a second, and webhooks of
 * priority 0 to another host, 10 a second. */
#include "bench/fairness.h"
#include "bench/sample_groups.h"

enum {
    SLOW_MS = 10000,
    SLOW_TASKS = 2500,
    NINES_A_SECOND = 100,
    OTHERS_A_SECOND = 10,
    BUSY_MS = 1000, /* after this time the host is busy */
    WAIT_MS = 60000,
    TARGET_TEXT = 256,
};
enum { HOSTS_SLOW, HOSTS_NINES, HOSTS_OTHERS, HOSTS_GROUPS };

static void hosts_write_target(char out[TARGET_TEXT], const char *address, int delay_ms)
{
    snprintf(out, TARGET_TEXT,
             "\"priority\":0,\"target_type\":\"HTTP_CALLBACK\","
             "\"target_config\":{\"url\":\"http://%s/delay/%d\"}",
             address, delay_ms);
}

static enum err hosts_run(struct bench *b, const char *busy, const char *other, struct error *e)
{
    cleanup_with(sample_groups_release) struct sample_groups groups = { 0 };
    char slow[TARGET_TEXT], quick[TARGET_TEXT];
    size_t seconds = fairness_seconds(b);
    hosts_write_target(slow, busy, SLOW_MS);
    hosts_write_target(quick, other, 0);
    struct fairness_group v[HOSTS_GROUPS] = {
        [HOSTS_SLOW] = { .target = slow, .tasks = SLOW_TASKS },
        [HOSTS_NINES] = { .label = "beside a busy host, priority 9,",
                          .target = "\"priority\":9,\"target_type\":\"NOOP\"",
                          .tasks = NINES_A_SECOND * seconds },
        [HOSTS_OTHERS] = { .label = "beside a busy host, another host,",
                           .target = quick,
                           .tasks = OTHERS_A_SECOND * seconds },
    };
    for (size_t i = HOSTS_NINES; i < HOSTS_GROUPS; i++) {
        v[i].after_ms = BUSY_MS;
        v[i].spread_ms = (int64_t)seconds * 1000;
        v[i].waited_for = true;
    }
    return fairness_run_groups(b, v, HOSTS_GROUPS, WAIT_MS, &groups, e);
}

/* Two addresses of the loopback interface are two hosts. */
enum err fairness_beside_busy_host(struct bench *b, struct error *e)
{
    struct bench_sink busy, other;
    if (bench_sink_start(b->cli, "127.0.0.1:0", &busy, e))
        return e->code;
    enum err rc = bench_sink_start(b->cli, "127.0.0.2:0", &other, e);
    if (rc == ERR_OK) {
        rc = hosts_run(b, busy.address, other.address, e);
        bench_sink_stop(&other);
    }
    bench_sink_stop(&busy);
    return rc;
}
