#include "core/task/outcome.h"

bool http_status_is_final(int status)
{
    return status >= 300 && status < 500 && status != 408 && status != 425 && status != 429;
}

bool outcome_is_final(const struct outcome *o)
{
    return o->failure == FAILURE_REFUSED || (o->failure == FAILURE_HTTP && http_status_is_final(o->http_status));
}
