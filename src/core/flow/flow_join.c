#include "core/flow/flow_join.h"

#include <assert.h>

static bool flow_is_broken_by(enum flow_outcome o)
{
    return o == FLOW_FAILED || o == FLOW_EXPIRED || o == FLOW_CANCELLED || o == FLOW_BROKEN;
}

struct flow_counts flow_arrival(enum dag_type type, enum flow_outcome parent)
{
    assert(parent != FLOW_OPEN && parent != FLOW_FORCED);
    bool met = false, broken = false;
    switch (type) {
    case DAG_MUST_SUCCEED:
        met = parent == FLOW_COMPLETED;
        broken = flow_is_broken_by(parent);
        break;
    case DAG_MUST_NOT_FAIL:
        met = parent == FLOW_COMPLETED || parent == FLOW_SKIPPED;
        broken = flow_is_broken_by(parent);
        break;
    case DAG_MUST_FINISH: met = true; break;
    case DAG_MUST_FAIL: met = parent == FLOW_FAILED || parent == FLOW_EXPIRED; break;
    }
    return (struct flow_counts){ 1, met, broken };
}

void flow_add_counts(struct flow_counts *to, struct flow_counts more)
{
    to->arrived += more.arrived;
    to->met += more.met;
    to->broken += more.broken;
}

enum flow_decision flow_decide(enum dag_join join, uint32_t expected, struct flow_counts c)
{
    bool all = c.arrived >= expected;
    enum flow_decision skip = c.broken ? FLOW_SKIP_BROKEN : FLOW_SKIP;
    if (expected == 0)
        return FLOW_START;
    switch (join) {
    case DAG_ALL: return c.met >= expected ? FLOW_START : c.broken || all ? skip : FLOW_WAIT;
    case DAG_ANY: return c.met ? FLOW_START : all ? skip : FLOW_WAIT;
    case DAG_SOME: break;
    }
    return !all ? FLOW_WAIT : c.met ? FLOW_START : skip;
}
