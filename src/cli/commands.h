#pragma once
/* cli/commands.h - every command, each from a file of its own. */
#include "cli/cli.h"

extern const struct command command_next, command_version, command_help_, command_completion, command_complete;
