#pragma once
/* base/openmetrics/openmetrics.h - from the Prometheus text format to that of OpenMetrics, which has exemplars
 * (base/metrics.h). Any thread. */
#include "base/buf.h"

/* Appends a text in the Prometheus format as OpenMetrics: the names of counters, where they are described, lose _total;
 * "# EOF" ends it. */
void openmetrics_convert(struct str text, struct buf *out);
