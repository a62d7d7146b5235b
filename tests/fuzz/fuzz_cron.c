/* Any bytes as a cron expression. The first eight choose the hash and the start; the rest is the text. A valid
 * expression must have a description, and a search must return matching times in order and leave none out. */
#include <stdlib.h>

#include "core/time/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define check(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            abort();                                                                                                   \
    } while (0)

static void check_description(struct str text)
{
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 1 << 16);
    cron_describe(text, &b);
    check(b.n > 0 && !b.full && str_is_utf8(buf_str(&b)));
}

static void check_search(const struct cron *c, int64_t from)
{
    for (int i = 0; i < 8; i++) {
        int64_t next = cron_next(c, from);
        check(next >= from);
        if (next == INT64_MAX)
            return;
        int64_t day = day_of_second(next);
        int time = (int)(next - day * DAY_S);
        check(cron_matches_day(c, day) && cron_next_day(c, day) == day);
        check(cron_next_in_day(c, time) == time);
        check(cron_next(c, from + (next - from) / 2) == next);
        from = next + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t draw = 0;
    if (size < sizeof draw)
        return 0;
    memcpy(&draw, data, sizeof draw);
    struct str text = { (const char *)data + sizeof draw, size - sizeof draw };
    struct cron c;
    struct error e = { .code = ERR_OK };
    if (cron_parse(text, draw, &c, &e)) {
        check(e.code == ERR_INVALID && e.field[0] && e.text[0]);
        for (const char *p = e.text; *p; p++)
            check(*p >= ' ' && *p <= '~');
        return 0;
    }
    check_description(text);
    check_search(&c, (int64_t)(draw % 16725225600) - 1000000000); /* 1938 to 2468 */
    return 0;
}
