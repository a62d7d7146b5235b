#pragma once
/* base/openmetrics/openmetrics.h - metrics in the OpenMetrics text format.
 *
 * Its buckets have exemplars: the trace of one of the values that they count. Any thread. */
#include "base/metrics.h"

enum { EXEMPLAR_TRACE = 32 }; /* hexadecimal digits of a trace id */

/* One of the values of a histogram, with its trace; the latest one of each bucket is kept. Of EXECUTION_DELAY,
 * EXECUTION_TIME and START_DELAY. metric_observe_us counts the value. */
void metric_note_exemplar(struct metrics *m, enum metric id, int64_t us, const char trace[EXEMPLAR_TRACE],
                          int64_t now_ms);

/* As metrics_print and metrics_print_some, with exemplars. */
void metrics_print_exemplars(struct metrics *m, struct buf *out);
void metrics_print_some_exemplars(struct metrics *m, const enum metric *ids, size_t n, struct buf *out);

/* Appends a text in the Prometheus format as OpenMetrics: the names of counters, where they are described, lose _total;
 * "# EOF" ends it. */
void openmetrics_convert(struct str text, struct buf *out);
