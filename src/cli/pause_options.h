#pragma once
/* cli/pause_options.h - the options --reason and --until of commands that pause tasks and runs. */
#include "base/json/jsonw.h"
#include "base/option/option.h"

/* The rows of these options; `...` has more members, such as .only. */
#define PAUSE_OPTIONS(...)                                                                                             \
    { .flag = "reason", .type = OPTION_TEXT, .value = "TEXT", .help = "the reason of the pause", __VA_ARGS__ },        \
    {                                                                                                                  \
        .flag = "until", .type = OPTION_TEXT, .value = "TIME|DURATION",                                                \
        .help = "the pause ends at this time, or after so long; '': it has no end", __VA_ARGS__                        \
    }

/* Whether one of them is given. A command that does not have them has none. */
bool pause_options_given(const struct options *o);
/* Writes the members `reason`, and `until` or `for`, of those that are given. */
enum err pause_options_write(const struct options *o, struct jw *w, struct error *e) must_use;
