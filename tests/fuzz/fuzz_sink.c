/* The sink's request parser. An accepted request is within the text. Its head alone is read the same; with one byte
 * less the parser asks for more. */
#include <stdlib.h>

#include "bench/sink_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void require_within(struct str whole, struct str part)
{
    require(!part.p || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = { (const char *)data, size };
    struct sink_request r = { .body_bytes = SIZE_MAX }, again;
    enum sink_parse got = sink_parse(text, &r);
    if (got == SINK_DONE) {
        require(r.head_bytes <= size && r.head_bytes <= SINK_HEAD_MAX && r.body_bytes <= SINK_BODY_MAX);
        struct str head = str_sub(text, 0, r.head_bytes);
        const struct str parts[] = { r.method, r.path, r.webhook_id, r.task_id, r.attempt, r.fence, r.scheduled_at };
        for (size_t i = 0; i < array_count(parts); i++)
            require_within(head, parts[i]);
        require(sink_parse(head, &again) == SINK_DONE && again.body_bytes == r.body_bytes);
        require(sink_parse(str_sub(head, 0, head.n - 1), &again) == SINK_MORE);
        struct sink_behaviour b = { .status = 200 };
        sink_parse_path(r.path, &b);
        require(b.status >= 200 && b.status <= 599 && b.delay_ms >= 0 && b.fail_first >= 0);
    } else {
        require(r.body_bytes == SIZE_MAX);
        require(got == SINK_BAD || size < SINK_HEAD_MAX);
    }
    return 0;
}
