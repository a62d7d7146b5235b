/* Wiring only: chooses the clock and the time zone database, and runs the command line. */
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"
#include "platform/clock_system.h"
#include "platform/zoneinfo_system.h"

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    struct cli cli = {
        .clock = clock_system(),
        .zones = zoneinfo_system_new(NULL),
        .out = stdout,
        .err = stderr,
        .out_is_terminal = isatty(STDOUT_FILENO),
    };
    int code = cli_main(&cli, argc, argv);
    zoneinfo_free(cli.zones);
    return code;
}
