#include "port/store/fleet.h"

#include "port/store.h"

size_t worker_reports_merge(const struct op_worker_report *op, struct worker_row *v)
{
    size_t n = 0;
    for (size_t i = 0; i < op->n; i++) {
        size_t at = 0;
        while (at < n && !uuid_eq(v[at].id, op->v[i].id))
            at++;
        bool leaves = op->v[i].left_ms || (at < n && v[at].left_ms);
        n += at == n;
        v[at] = op->v[i];
        v[at].joined_ms = v[at].seen_ms = op->now_ms;
        v[at].left_ms = leaves ? op->now_ms : 0;
    }
    return n;
}

bool worker_report_changes(const struct worker_row *before, const struct worker_row *now)
{
    return !before || (now->left_ms && !before->left_ms) || now->slots != before->slots ||
           worker_kind_compare(&now->kind, &before->kind) != 0 || now->seen_ms - before->seen_ms >= WORKER_SILENT_MS;
}
