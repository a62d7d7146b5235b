/* Instants and durations as text. An accepted value prints as text that reads back as the same value. An error leaves
 * the result unchanged and has a sentence without unprintable bytes. */
#include <stdlib.h>

#include "base/duration.h"
#include "base/rfc3339.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { UNTOUCHED = -7777777 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void require_refused(enum err rc, int64_t ret, const struct error *e)
{
    require(rc == ERR_INVALID && e->code == ERR_INVALID);
    require(ret == UNTOUCHED && e->text[0] && !e->field[0]);
    for (const char *p = e->text; *p; p++)
        require(*p >= ' ' && *p <= '~');
}

static void try_instant(struct str text)
{
    int64_t ms = UNTOUCHED, again = UNTOUCHED;
    struct error e = { 0 };
    enum err rc = rfc3339_parse(text, &ms, &e);
    if (rc) {
        require_refused(rc, ms, &e);
        return;
    }
    char printed[RFC3339_TEXT + 1];
    rfc3339_format(ms, printed);
    require(rfc3339_parse(str_from(printed), &again, &e) == ERR_OK && again == ms);
}

static void try_duration(struct str text)
{
    int64_t ms = UNTOUCHED, again = UNTOUCHED;
    struct error e = { 0 };
    enum err rc = duration_parse(text, &ms, &e);
    if (rc) {
        require_refused(rc, ms, &e);
        return;
    }
    require(ms >= 0 && ms <= DURATION_MAX_MS);
    char printed[DURATION_TEXT];
    duration_format(ms, printed);
    require(duration_parse(str_from(printed), &again, &e) == ERR_OK && again == ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = { (const char *)data, size };
    try_instant(text);
    try_duration(text);
    return 0;
}
