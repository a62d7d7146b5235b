#include "core/cron_syntax.h"
void cron_describe(struct str text, struct buf *out)
{
    (void)text;
    buf_text(out, "x");
}
