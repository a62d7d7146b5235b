#include "cli/commands.h"

const struct option common_options[] = {
    {.flag = "json", .type = OPTION_FLAG, .help = "print JSON, one object a line"},
    { .flag = "help", .letter = 'h', .type = OPTION_FLAG,           .help = "print this and exit" },
};
const size_t common_option_count = array_count(common_options);

const struct command *const commands[] = {
    &command_next, &command_version, &command_help_, &command_completion, &command_complete, NULL,
};
