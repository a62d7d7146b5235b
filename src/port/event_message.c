#include "port/event_message.h"

#include "core/target/message.h"
#include "core/target/target_url.h"

/* A table; the formatter would make three lines of each row. */
/* clang-format off */
static const char *const kinds[] = { [EVENT_OUTCOME] = "OUTCOME", [EVENT_WORKER] = "WORKER" };
static const char *const outcomes[] = {
    [OUTCOME_OK] = "OK",               [OUTCOME_FAILED] = "FAILED", [OUTCOME_LOST] = "LOST",       [OUTCOME_RETURNED] = "RETURNED",
    [OUTCOME_CANCELLED] = "CANCELLED", [OUTCOME_HELD] = "HELD",     [OUTCOME_EXPIRED] = "EXPIRED",
};
static const char *const failures[] = {
    [FAILURE_NONE] = "NONE",       [FAILURE_HTTP] = "HTTP",       [FAILURE_CONNECT] = "CONNECT", [FAILURE_TLS] = "TLS",
    [FAILURE_TIMEOUT] = "TIMEOUT", [FAILURE_NETWORK] = "NETWORK", [FAILURE_REFUSED] = "REFUSED", [FAILURE_INTERNAL] = "INTERNAL",
};

static const char *const breaker_kinds[] = {
    [BREAKER_NO_NEWS] = "NONE", [BREAKER_OPENED] = "OPENED",       [BREAKER_RECOVERED] = "RECOVERED",
    [BREAKER_HELD] = "HELD",    [BREAKER_TRIAL_FAILED] = "FAILED",
};

#define TIME_MS WIRE_BETWEEN(-WIRE_MS_MAX, WIRE_MS_MAX)
#define TIME_US WIRE_BETWEEN(-WIRE_MS_MAX * 1000, WIRE_MS_MAX * 1000)

#define AT(member) WIRE_AT(struct settle_facts, member)
static const struct wire_field facts[] = {
    { "id",           WIRE_UUID, AT(id), .required = true },
    { "fence",        WIRE_I64,  AT(fence), WIRE_BETWEEN(1, INT64_MAX) },
    { "kind",         WIRE_ENUM, AT(kind), WIRE_NAMES(wire_task_kinds), .always = true },
    { "parent",       WIRE_UUID, AT(parent) },
    { "tenant",       WIRE_INT,  AT(tenant), WIRE_BETWEEN(0, INT32_MAX), .always = true },
    { "scheduled_ms", WIRE_I64,  AT(scheduled_ms), TIME_MS, .always = true },
    { "due_ms",       WIRE_I64,  AT(due_ms), TIME_MS, .always = true },
    { "awaited_ms",   WIRE_I64,  AT(awaited_ms), TIME_MS },
    { "late_by",      WIRE_ENUM, AT(late_by), .names = late_cause_names, .name_count = LATE_CAUSES },
    { "attempts",     WIRE_INT,  AT(attempts), WIRE_BETWEEN(0, WIRE_COUNT_MAX) },
    { "losses",       WIRE_INT,  AT(losses), WIRE_BETWEEN(0, WIRE_COUNT_MAX) },
    { "delivery",     WIRE_ENUM, AT(delivery), WIRE_NAMES(wire_deliveries) },
    { "retry",        WIRE_OBJECT, AT(retry), WIRE_FIELDS(wire_retry) },
    { "expires_ms",   WIRE_I64,  AT(expires_ms), WIRE_BETWEEN(INT64_MIN, INT64_MAX), .absent = INT64_MAX },
    { "target",       WIRE_ENUM, AT(target), .names = target_kind_names, .name_count = TARGET_KINDS, .always = true },
    { "place",        WIRE_TEXT, AT(place), .max = PLACE_MAX },
    { "queue",        WIRE_TEXT, AT(queue) },
    { "name",         WIRE_TEXT, AT(name) },
    { "version",      WIRE_I64,  AT(version), WIRE_BETWEEN(0, INT64_MAX) },
    { "run",          WIRE_UUID, AT(run) },
    { "trace",        WIRE_TEXT, AT(trace) },
};
#undef AT

#define AT(member) WIRE_AT(struct outcome, member)
static const struct wire_field outcome[] = {
    { "kind",           WIRE_ENUM, AT(kind), WIRE_NAMES(outcomes), .always = true },
    { "failure",        WIRE_ENUM, AT(failure), WIRE_NAMES(failures) },
    { "sent",           WIRE_BOOL, AT(sent) },
    { "alone",          WIRE_BOOL, AT(alone) },
    { "http_status",    WIRE_INT,  AT(http_status), WIRE_BETWEEN(0, 999) },
    { "retry_after_ms", WIRE_I64,  AT(retry_after_ms), WIRE_BETWEEN(-1, WIRE_MS_MAX), .absent = -1 },
    { "started_us",     WIRE_I64,  AT(started_us), TIME_US },
    { "completed_us",   WIRE_I64,  AT(completed_us), TIME_US },
    { "worker",         WIRE_TEXT, AT(worker) },
    { "trace_id",       WIRE_TEXT, AT(trace_id) },
    { "error",          WIRE_TEXT, AT(error) },
    { "output",         WIRE_TEXT, AT(output) },
    { "aside",          WIRE_TEXT, AT(aside), .max = TARGET_HOST_MAX },
    { "recalled",       WIRE_BOOL, AT(recalled) },
    { "sampled",        WIRE_BOOL, AT(sampled) },
    { "late_by",        WIRE_ENUM, AT(late_by), .names = late_cause_names, .name_count = LATE_CAUSES },
};
#undef AT

#define AT(member) WIRE_AT(struct breaker_news, member)
static const struct wire_field breaker[] = {
    { "news",     WIRE_ENUM, AT(kind), WIRE_NAMES(breaker_kinds), .always = true },
    { "by_retry_after", WIRE_BOOL, AT(by_retry_after) },
    { "until_ms", WIRE_I64,  AT(until_ms), TIME_MS },
    { "calls",    WIRE_INT,  AT(counts.total), WIRE_BETWEEN(0, WIRE_COUNT_MAX) },
    { "failures", WIRE_INT,  AT(counts.failures), WIRE_BETWEEN(0, WIRE_COUNT_MAX) },
};
#undef AT

#define AT(member) WIRE_AT(struct worker_report, member)
static const struct wire_field worker[] = {
    { "id",      WIRE_UUID, AT(id), .required = true },
    { "name",    WIRE_TEXT, AT(name) },
    { "version", WIRE_TEXT, AT(version) },
    { "slots",   WIRE_I64,  AT(slots), WIRE_BETWEEN(0, WIRE_COUNT_MAX), .always = true },
    { "running", WIRE_I64,  AT(running), WIRE_BETWEEN(0, WIRE_COUNT_MAX), .always = true },
    { "left",    WIRE_BOOL, AT(left) },
    { "queues",  WIRE_TEXT, AT(kind.queues) },
    { "tenants", WIRE_TEXT, AT(kind.tenants) },
    { "labels",  WIRE_TEXT, AT(kind.labels) },
    { "priority_min", WIRE_INT, AT(kind.priority_min), WIRE_BETWEEN(0, PRIORITY_MAX) },
    { "priority_max", WIRE_INT, AT(kind.priority_max), WIRE_BETWEEN(-1, PRIORITY_MAX), .absent = -1 },
    { "cpu_milli",    WIRE_I64, AT(kind.cpu_milli), WIRE_BETWEEN(-1, INT64_MAX), .absent = -1 },
    { "memory_mb",    WIRE_I64, AT(kind.memory_mb), WIRE_BETWEEN(-1, INT64_MAX), .absent = -1 },
    { "doc",     WIRE_JSON, AT(doc) },
};
#undef AT

#define KIND { "event", WIRE_ENUM, WIRE_AT(struct event, kind), WIRE_NAMES(kinds), .always = true, .required = true }
#define WORKER { "worker", WIRE_OBJECT, WIRE_AT(struct event, worker), WIRE_FIELDS(worker), .optional = true }
static const struct wire_field fields[] = {
    KIND,
    { "task",    WIRE_OBJECT, WIRE_AT(struct event, task), WIRE_FIELDS(facts), .optional = true },
    { "outcome", WIRE_OBJECT, WIRE_AT(struct event, outcome), WIRE_FIELDS(outcome), .optional = true },
    { "host",    WIRE_TEXT, WIRE_AT(struct event, host), .max = TARGET_HOST_MAX },
    { "host_breaker",   WIRE_OBJECT, WIRE_AT(struct event, breakers.host), WIRE_FIELDS(breaker), .optional = true },
    { "tenant_breaker", WIRE_OBJECT, WIRE_AT(struct event, breakers.tenant), WIRE_FIELDS(breaker), .optional = true },
    WORKER,
};
enum { OF_OUTCOME = 4, OF_BREAKERS = 6 }; /* the first of them are what an OUTCOME has; a WORKER has these: */
static const struct wire_field of_worker[] = { KIND, WORKER };
/* clang-format on */

void event_write(struct jw *w, const struct event *e)
{
    if (e->kind == EVENT_OUTCOME)
        wire_write(w, fields, e->host.n ? OF_BREAKERS : OF_OUTCOME, e);
    else
        wire_write(w, of_worker, array_count(of_worker), e);
}

enum err event_read(struct arena *a, struct str text, struct event *ret, struct error *e)
{
    struct event read = { 0 };
    enum err rc = wire_read(a, text, fields, array_count(fields), &read, e);
    if (rc)
        return rc;
    bool whole = read.kind == EVENT_OUTCOME ? read.task.fence > 0 : !uuid_is_nil(read.worker.id);
    if (!whole)
        return error_set(e, ERR_CORRUPT, "an event without its %s", read.kind == EVENT_OUTCOME ? "task" : "worker");
    if (read.kind == EVENT_WORKER && read.worker.kind.priority_max < 0) /* of a release that did not tell it */
        read.worker.kind = WORKER_KIND_UNKNOWN;
    *ret = read;
    return ERR_OK;
}
