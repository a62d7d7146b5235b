/* "No limit" is 0 in the struct and null in the document. A 0 in the document is read as no limit, too. */
#include "core/sharing/queue_rules.h"

#include "base/json/json.h"

enum { LIMIT_MAX = 1000000, WEIGHT_MAX = 1000, TEXT_MAX = 1000 };

struct queue_pause_json {
    struct str by, reason;
    int64_t since_ms, until_ms;
    bool is_set;
};

struct queue_rules_json {
    double rate;
    int64_t burst, concurrent, weight, resumed_ms;
    struct queue_pause_json pause;
};

/* clang-format off */
#define AT(member) .offset = offsetof(struct queue_pause_json, member)
static const struct json_field pause_fields[] = {
    { .name = "by", .kind = JSON_KIND_STR, AT(by), .max = TEXT_MAX, .characters = true, .nullable = true },
    { .name = "reason", .kind = JSON_KIND_STR, AT(reason), .max = TEXT_MAX, .characters = true, .nullable = true },
    { .name = "since", .kind = JSON_KIND_TIME, AT(since_ms), .seen_offset = offsetof(struct queue_pause_json, is_set), .required = true },
    { .name = "until", .kind = JSON_KIND_TIME, AT(until_ms), .nullable = true },
};
#undef AT
#define AT(member) .offset = offsetof(struct queue_rules_json, member)
static const struct json_field fields[] = {
    { .name = "max_dispatches_per_second", .kind = JSON_KIND_F64, AT(rate), .max = LIMIT_MAX, .nullable = true },
    { .name = "max_burst", .kind = JSON_KIND_I64, AT(burst), .max = LIMIT_MAX, .nullable = true },
    { .name = "max_concurrent", .kind = JSON_KIND_I64, AT(concurrent), .max = LIMIT_MAX, .nullable = true },
    { .name = "weight", .kind = JSON_KIND_I64, AT(weight), .min = 1, .max = WEIGHT_MAX, .nullable = true },
    { .name = "paused", .kind = JSON_KIND_OBJECT, AT(pause), .fields = pause_fields, .count = array_count(pause_fields), .nullable = true },
    { .name = "resumed_at", .kind = JSON_KIND_TIME, AT(resumed_ms), .nullable = true },
};
/* clang-format on */

enum err queue_rules_read(struct str doc, struct arena *a, struct queue_rules *ret, struct error *e)
{
    struct error own; /* so that e may be NULL */
    e = e ? e : &own;
    cleanup_with(json_doc_release) struct json_doc json = { 0 };
    struct queue_rules_json d = { .weight = QUEUE_RULES_DEFAULT.weight };
    if (json_parse(doc, &json, e) || json_read(json.root, fields, array_count(fields), &d, a, e))
        return e->code;
    if (d.rate > 0 && d.burst == 0) /* default: the tokens of one second */
        d.burst = max_of((int64_t)d.rate, (int64_t)1);
    *ret = (struct queue_rules){ .rate = d.rate,
                                 .burst = d.burst,
                                 .concurrent = d.concurrent,
                                 .weight = d.weight,
                                 .paused = d.pause.is_set,
                                 .paused_by = d.pause.by,
                                 .paused_reason = d.pause.reason,
                                 .paused_ms = d.pause.since_ms,
                                 .paused_until_ms = d.pause.until_ms,
                                 .resumed_ms = d.resumed_ms };
    return ERR_OK;
}

static void queue_rules_write_pause(struct jw *w, const struct queue_rules *r)
{
    jw_key(w, "paused");
    if (!r->paused) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_str(w, "by", r->paused_by);
    jw_kv_str(w, "reason", r->paused_reason);
    jw_kv_time(w, "since", r->paused_ms);
    jw_kv_time_or_null(w, "until", r->paused_until_ms);
    jw_object_end(w);
}

void queue_rules_write(struct jw *w, const struct queue_rules *r)
{
    jw_key(w, "max_dispatches_per_second");
    if (r->rate > 0)
        jw_f64(w, r->rate);
    else
        jw_null(w);
    jw_kv_i64_or_null(w, "max_burst", r->burst);
    jw_kv_i64_or_null(w, "max_concurrent", r->concurrent);
    jw_kv_i64(w, "weight", r->weight);
    queue_rules_write_pause(w, r);
    jw_kv_time_or_null(w, "resumed_at", r->resumed_ms);
}

bool queue_is_paused(const struct queue_rules *r, int64_t now_ms)
{
    return r->paused && (r->paused_until_ms == 0 || now_ms < r->paused_until_ms);
}

/* A pause with an end is over at that time; the ramp starts there. If the clock was set back by more than RAMP_MS,
 * there is no ramp: a ramp must not limit a queue for as long as the clock was set back. */
double queue_ramp_rate(const struct queue_rules *r, int64_t now_ms)
{
    int64_t from_ms = r->paused ? r->paused_until_ms : r->resumed_ms;
    int64_t gone_ms = now_ms - from_ms;
    if (from_ms == 0 || gone_ms >= RAMP_MS || gone_ms < -RAMP_MS)
        return 0;
    return (double)((int64_t)RAMP_FIRST << max_of(gone_ms, (int64_t)0) / 1000);
}
