/* Configuration files. A value is kept only if its row allows it, and is followed by a NUL. An error has a sentence
 * that names the file. */
#include <stdint.h>
#include <stdlib.h>

#include "base/option/option.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct option rows[] = {
    { .key = "text", .type = OPTION_TEXT, .preset = "x" },
    { .key = "on", .type = OPTION_FLAG },
    { .key = "n", .type = OPTION_INT, .min = -5, .max = 5 },
    { .key = "any", .type = OPTION_INT },
    { .key = "api.d", .type = OPTION_DURATION, .min = 1000, .max = 60000 },
    { .key = "api.t", .type = OPTION_TIME },
    { .key = "api.c", .type = OPTION_CHOICE, .choices = "shift|skip|both" },
    { .key = "api.l-1", .type = OPTION_LIST },
    { .flag = "flag", .type = OPTION_TEXT },
};

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_value(const struct option *row, const struct option_value *v)
{
    if (v->source == FROM_NOWHERE)
        return;
    check(v->text.p && v->text.p[v->text.n] == '\0' && strlen(v->text.p) == v->text.n && str_is_utf8(v->text));
    if (row->min || row->max)
        check(v->number >= row->min && v->number <= row->max);
    if (row->type == OPTION_CHOICE)
        check(v->number >= 0 && v->number < 3);
    check((row->type == OPTION_LIST) == (v->list_count == 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct options o;
    struct error e = { 0 };
    options_init(&o, rows, array_count(rows));
    if (options_parse_file(&o, "fuzz.conf", (struct str){ (const char *)data, size }, &e))
        check(e.code != ERR_OK && strstr(e.text, "fuzz.conf"));
    for (size_t i = 0; i < array_count(rows); i++)
        check_value(&rows[i], &o.values[i]);
    options_release(&o);
    return 0;
}
