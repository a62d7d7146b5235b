#include "base/openmetrics/openmetrics.h"

#define TOTAL "_total"

/* "# HELP name text", "# TYPE name counter": only those of counters have names that end in _total. */
static void openmetrics_add_description(struct str line, struct buf *out)
{
    enum { PREFIX = sizeof "# TYPE " - 1 };
    size_t end = str_find(line, ' ', PREFIX);
    struct str name = str_sub(line, PREFIX, end);
    size_t tail = sizeof TOTAL - 1;
    if (name.n > tail && str_eq(str_sub(name, name.n - tail, name.n), S(TOTAL)))
        name.n -= tail;
    buf_add(out, str_sub(line, 0, PREFIX));
    buf_add(out, name);
    buf_add(out, str_sub(line, end, line.n));
}

void openmetrics_convert(struct str text, struct buf *out)
{
    struct str rest = text, line;
    while (str_cut(&rest, '\n', &line)) {
        if (str_starts(line, S("# HELP ")) || str_starts(line, S("# TYPE ")))
            openmetrics_add_description(line, out);
        else
            buf_add(out, line);
        buf_char(out, '\n');
    }
    buf_text(out, "# EOF\n");
}
