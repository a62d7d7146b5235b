/* Wiring only: chooses the clock and the time zone database, and runs the command line. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "platform/clock_system.h"
#include "platform/zoneinfo_system.h"

/* Whoever started us may have closed the first three descriptors. The next file or connection would get such a number,
 * and what is written for people would go there. What takes the place cannot be read or written, so that a command
 * whose output is lost says so. */
static void reserve_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            abort();
}

int main(int argc, char **argv)
{
    reserve_standard_files();
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
