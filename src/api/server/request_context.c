#include "api/server/request_context.h"

#include "api/server/internal.h"

struct task_context request_context(const struct request *q)
{
    const struct api_setup *setup = &q->server->setup;
    return (struct task_context){ .tenant = q->who.tenant,
                                  .now_ms = q->now_ms,
                                  .behind_ms = clock_behind_ms(setup->clock),
                                  .zones = setup->zones,
                                  .catalog = setup->catalog,
                                  .payload_bytes = tenant_limits_payload_bytes(q),
                                  .secrets = setup->secrets,
                                  .brokers = setup->brokers,
                                  .needs = setup->needs,
                                  .trace = q->trace,
                                  .no_workers = !setup->queue_timeout_max,
                                  .timeout_max_ms =
                                      setup->queue_timeout_max ? setup->queue_timeout_max(setup->context) : 0 };
}
