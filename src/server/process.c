#include "server/process.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/clock_system.h"
#include "platform/otlp/otlp_tracer.h"
#include "runner/http/runner_http.h"
#include "runner/noop/runner_noop.h"
#include "server/settings/options.h"

enum { OWN_DESCRIPTORS = 128 }; /* of stores, brokers, listeners and the loops */

/* Thousands of concurrent calls need thousands of descriptors. */
static void process_raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

size_t process_share_descriptors(size_t calls, size_t connections)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= calls + connections + OWN_DESCRIPTORS)
        return connections;
    size_t shared = min_of(connections, (size_t)limit.rlim_cur / 2);
    log_warn("files_too_few", kv_i64("limit", (int64_t)limit.rlim_cur),
             kv_i64("wanted", (int64_t)(calls + connections + OWN_DESCRIPTORS)),
             kv_i64("api_connections", (int64_t)shared),
             kv_cstr("remedy", "let this process open more files (LimitNOFILE, ulimit -Hn), or set worker.concurrency "
                               "or api.connections lower"));
    return shared;
}

/* Batches allocate and free pieces of about 1 MiB. By default malloc maps and unmaps each of them, and the kernel
 * clears every page again: that took a tenth of the time of a create. */
static void process_keep_freed_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

/* The memory holds keys and passwords: no core dump, and no other process of the same user may read it. The leak
 * check of a sanitizer build must read it. */
static void process_hide_memory(void)
{
#ifndef __SANITIZE_ADDRESS__
    prctl(PR_SET_DUMPABLE, 0);
#endif
}

void process_prepare(void)
{
    process_hide_memory();
    process_raise_descriptor_limit();
    process_keep_freed_memory();
}

void process_name(char out[PROCESS_NAME_TEXT])
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    snprintf(out, PROCESS_NAME_TEXT, "%.64s:%d", host, (int)getpid());
}

static void process_on_broker_failed(const char *broker, const char *why)
{
    log_warn("broker_failed", kv_cstr("broker", broker), kv_cstr("error", why));
}

enum err runners_open(const struct runners_setup *setup, struct runners *ret, struct error *e)
{
    struct runner_http_setup http = RUNNER_HTTP_SETUP;
    http.in_flight_max = setup->slots;
    http.guard = setup->guard;
    http.ca_file = setup->ca_file;
    http.secrets = setup->secrets;
    http.signing = setup->signing;
    http.sends_tracestate = setup->sends_tracestate;
    ret->v[TARGET_NOOP] = runner_noop_new(setup->clock);
    struct runner_message_setup message = { .broker_failed = process_on_broker_failed,
                                            .rules = setup->brokers ? &setup->brokers->rules : NULL,
                                            .tenant_name = setup->tenant_name,
                                            .context = setup->context,
                                            .tenant_connections = setup->tenant_connections,
                                            .brokers = setup->brokers ? setup->brokers->v : NULL,
                                            .broker_count = setup->brokers ? setup->brokers->n : 0,
                                            .secrets = setup->secrets,
                                            .signing = setup->signing,
                                            .sends_tracestate = setup->sends_tracestate,
                                            .guard = setup->guard };
    ret->v[TARGET_MESSAGE] = runner_message_new(setup->loop, setup->clock, &message);
    ret->v[TARGET_HTTP] = runner_http_new(setup->loop, setup->clock, &http, e);
    return ret->v[TARGET_HTTP] ? ERR_OK : e->code;
}

void runners_free(struct runners *r)
{
    for (size_t i = 0; i < RUNNER_KINDS; i++)
        runner_free(r->v[i]);
    *r = (struct runners){ 0 };
}

/* ---- traces ---- */

static enum err process_read_tracer(const struct trace_setup *setup, struct otlp_settings *ret, struct error *e)
{
    char name[PROCESS_NAME_TEXT];
    process_name(name);
    return otlp_settings_read(setup->endpoint, setup->ratio, name, options_getenv, ret, e);
}

enum err trace_setup_check(const struct trace_setup *setup, struct error *e)
{
    struct otlp_settings settings = { .ratio = 0 };
    enum err rc = process_read_tracer(setup, &settings, e);
    otlp_settings_release(&settings);
    return rc;
}

static void process_on_spans_lost(void *context, const struct error *why, size_t spans)
{
    (void)context;
    log_warn("spans_not_exported", kv_err(why), kv_i64("spans", (int64_t)spans));
}

enum err process_open_tracer(const struct trace_setup *setup, const char *ca_file, struct metrics *metrics,
                             struct tracer **ret, struct error *e)
{
    struct otlp_settings settings = { .ratio = 0 };
    enum err rc = process_read_tracer(setup, &settings, e);
    if (rc == ERR_OK && settings.url.n)
        rc = otlp_tracer_new(&(struct otlp_tracer_setup){ .settings = &settings,
                                                          .ca_file = ca_file,
                                                          .metrics = metrics,
                                                          .clock = clock_system(),
                                                          .failed = process_on_spans_lost },
                             ret, e);
    otlp_settings_release(&settings);
    return rc;
}
