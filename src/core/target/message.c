#include "core/target/message.h"

#include "core/target/target_url.h"

/* clang-format would make three lines of each row. */
/* clang-format off */
const char *const wire_task_kinds[] = { [TASK_ONE_TIME] = "ONE_TIME", [TASK_RECURRING] = "", [TASK_OCCURRENCE] = "OCCURRENCE" };
const char *const wire_deliveries[] = { [DELIVER_AT_LEAST_ONCE] = "AT_LEAST_ONCE", [DELIVER_AT_MOST_ONCE] = "AT_MOST_ONCE" };
static const char *const backoffs[] = { [BACKOFF_EXPONENTIAL] = "EXPONENTIAL", [BACKOFF_FIXED] = "FIXED" };
static const char *const jitters[] = { [JITTER_FULL] = "FULL", [JITTER_NONE] = "NONE" };

#define AT(member) WIRE_AT(struct retry_policy, member)
const struct wire_field wire_retry[] = {
    { "max_attempts",  WIRE_INT,  AT(max_attempts),  WIRE_BETWEEN(0, WIRE_COUNT_MAX), .absent = 5 },
    { "backoff",       WIRE_ENUM, AT(backoff),       WIRE_NAMES(backoffs) },
    { "base_delay_ms", WIRE_I64,  AT(base_delay_ms), WIRE_BETWEEN(0, WIRE_MS_MAX), .absent = 1000 },
    { "max_delay_ms",  WIRE_I64,  AT(max_delay_ms),  WIRE_BETWEEN(0, WIRE_MS_MAX), .absent = 3600000 },
    { "jitter",        WIRE_ENUM, AT(jitter),        WIRE_NAMES(jitters) },
    { "rules",         WIRE_JSON, AT(rules) },
};
#undef AT

struct message {
    struct task task;
    struct str tenant_name;
};

#define AT(member) WIRE_AT(struct message, task.member)
static const struct wire_field fields[] = {
    { "id",               WIRE_UUID, AT(id), .required = true },
    { "fence",            WIRE_I64,  AT(fence), WIRE_BETWEEN(1, INT64_MAX) },
    { "kind",             WIRE_ENUM, AT(kind), WIRE_NAMES(wire_task_kinds), .always = true },
    { "parent",           WIRE_UUID, AT(parent) },
    { "run",              WIRE_UUID, AT(run) }, /* the span of a step is below that of its run */
    { "tenant",           WIRE_INT,  AT(tenant), WIRE_BETWEEN(0, INT32_MAX), .always = true },
    { "tenant_name",      WIRE_TEXT, WIRE_AT(struct message, tenant_name) },
    { "claim",            WIRE_UUID, AT(claim) },
    { "queue",            WIRE_TEXT, AT(queue) },
    { "priority",         WIRE_INT,  AT(priority), WIRE_BETWEEN(PRIORITY_MIN, PRIORITY_MAX), .always = true },
    { "due_ms",           WIRE_I64,  AT(due_ms), WIRE_BETWEEN(-WIRE_MS_MAX, WIRE_MS_MAX), .always = true },
    { "scheduled_ms",     WIRE_I64,  AT(scheduled_ms), WIRE_BETWEEN(-WIRE_MS_MAX, WIRE_MS_MAX), .always = true },
    { "awaited_ms",       WIRE_I64,  AT(awaited_ms), WIRE_BETWEEN(-WIRE_MS_MAX, WIRE_MS_MAX) },
    { "late_by",          WIRE_ENUM, AT(late_by), .names = late_cause_names, .name_count = LATE_CAUSES },
    { "created_ms",       WIRE_I64,  AT(created_ms), WIRE_BETWEEN(-WIRE_MS_MAX, WIRE_MS_MAX) },
    { "version",          WIRE_I64,  AT(version), WIRE_BETWEEN(0, INT64_MAX) },
    { "attempts",         WIRE_INT,  AT(attempts), WIRE_BETWEEN(0, WIRE_COUNT_MAX) },
    { "losses",           WIRE_INT,  AT(losses), WIRE_BETWEEN(0, WIRE_COUNT_MAX) },
    /* says whether it was lost alone before (node/reaper/lost_verdict.c) */
    { "last_error",       WIRE_TEXT, AT(last_error) },
    { "name",             WIRE_TEXT, AT(name) },
    { "task_type",        WIRE_TEXT, AT(task_type) },
    { "delivery",         WIRE_ENUM, AT(delivery), WIRE_NAMES(wire_deliveries) },
    { "timeout_ms",       WIRE_I64,  AT(timeout_ms), WIRE_BETWEEN(0, WIRE_MS_MAX) },
    { "expires_after_ms", WIRE_I64,  AT(expires_after_ms), WIRE_BETWEEN(0, WIRE_MS_MAX) },
    { "retry",            WIRE_OBJECT, AT(retry), WIRE_FIELDS(wire_retry) },
    { "requires",         WIRE_TEXT, AT(requires) },
    { "aside",            WIRE_TEXT, AT(aside), .max = TARGET_HOST_MAX }, /* its result is that of a trial (node/worker/worker.c) */
    { "cpu_milli",        WIRE_I64,  AT(cpu_milli), WIRE_BETWEEN(0, WIRE_MS_MAX) },
    { "memory_mb",        WIRE_I64,  AT(memory_mb), WIRE_BETWEEN(0, WIRE_MS_MAX) },
    { "target",           WIRE_ENUM, AT(target), .names = target_kind_names, .name_count = TARGET_KINDS, .always = true },
    { "target_config",    WIRE_JSON, AT(target_config) },
    { "payload",          WIRE_JSON, AT(payload) },
    { "extra",            WIRE_JSON, AT(extra) },
    { "trace",            WIRE_TEXT, AT(trace) },
    { "links",            WIRE_INT, AT(links), WIRE_BETWEEN(0, TASK_LINKS) },
    { "signing",          WIRE_JSON, AT(signing) },
};
#undef AT
/* clang-format on */

void message_write_task(struct jw *w, const struct task *t, struct str tenant_name, struct str signing)
{
    struct message m = { .task = *t, .tenant_name = tenant_name };
    m.task.signing = signing;
    wire_write(w, fields, array_count(fields), &m);
}

enum err message_read_task(struct arena *a, struct str text, struct task *ret, struct str *ret_tenant_name,
                           struct error *e)
{
    struct message m = { .task = { .state = TASK_RUNNING } };
    enum err rc = wire_read(a, text, fields, array_count(fields), &m, e);
    if (rc)
        return rc;
    *ret = m.task;
    ret->tenant_name = m.tenant_name;
    *ret_tenant_name = m.tenant_name;
    return ERR_OK;
}
