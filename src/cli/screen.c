#include "cli/screen.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { FRAME_MAX = 4 << 20, LINES_DEFAULT = 40 };

#define SCREEN_ENTER "\033[?1049h\033[?25l" /* the alternate screen; no cursor */
#define SCREEN_LEAVE "\033[?25h\033[?1049l"

static const int quit_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static volatile sig_atomic_t interrupted;
static const struct screen *shown; /* NULL: none */

static void screen_on_interrupt(int number)
{
    if (interrupted && shown) {
        ssize_t n = write(STDOUT_FILENO, SCREEN_LEAVE, sizeof SCREEN_LEAVE - 1);
        if (shown->has_keys)
            tcsetattr(STDIN_FILENO, TCSANOW, &shown->saved);
        _exit(n < 0 ? 1 : 128 + number);
    }
    interrupted = 1;
}

static void screen_catch_signals(void (*handler)(int))
{
    struct sigaction quit = { .sa_handler = handler };
    for (size_t i = 0; i < array_count(quit_signals); i++)
        sigaction(quit_signals[i], &quit, NULL);
}

static size_t screen_lines(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row ? size.ws_row : LINES_DEFAULT;
}

void screen_open(struct screen *s, struct cli *cli)
{
    *s = (struct screen){ .cli = cli };
    s->has_keys = tcgetattr(STDIN_FILENO, &s->saved) == 0;
    if (s->has_keys) {
        struct termios raw = s->saved;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    FILE *errors = open_memstream(&s->errors, &s->error_bytes);
    s->err = cli->err;
    cli->err = errors ? errors : cli->err;
    shown = s;
    screen_catch_signals(screen_on_interrupt);
    fputs(SCREEN_ENTER, cli->out);
}

void screen_close(struct screen *s)
{
    fputs(SCREEN_LEAVE, s->cli->out);
    fflush(s->cli->out);
    if (s->has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &s->saved);
    shown = NULL;
    screen_catch_signals(SIG_DFL);
    if (s->cli->err == s->err)
        return;
    fclose(s->cli->err);
    s->cli->err = s->err;
    fwrite(s->errors, 1, s->error_bytes, s->err);
    free(s->errors);
}

bool screen_draw(struct screen *s, const struct buf *text)
{
    cleanup_with(buf_release) struct buf frame;
    struct str rest = buf_str(text), line;
    size_t lines = screen_lines();
    buf_init(&frame, FRAME_MAX);
    buf_text(&frame, "\033[H");
    for (size_t i = 1; i < lines && str_cut(&rest, '\n', &line); i++) {
        buf_add(&frame, line);
        buf_text(&frame, "\033[K\n");
    }
    buf_text(&frame, "\033[Jq: quit");
    return cli_print(s->cli, &frame);
}

bool screen_wait(struct screen *s, int64_t ms)
{
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    char c = '\0';
    if (poll(&in, s->is_deaf ? 0 : 1, (int)ms) <= 0)
        return interrupted;
    ssize_t n = read(STDIN_FILENO, &c, 1);
    s->is_deaf = n <= 0 && s->ends_by_itself;
    return interrupted || (n <= 0 && !s->is_deaf) || c == 'q' || c == 'Q';
}
