#pragma once
/* cli/screen.h - a screen that a command redraws until the user quits: `top`, `workflow show --watch`.
 *
 *   struct screen s;
 *   screen_open(&s, cli);
 *   do … write the text …; while (screen_draw(&s, &text) && !screen_wait(&s, every_ms));
 *   screen_close(&s);
 *
 * stdout is a terminal. One screen at a time. What a command prints to cli->err meanwhile appears when the screen is
 * closed. The signals INT, TERM, HUP and QUIT quit; a second one does not wait for the command. */
#include <termios.h>

#include "cli/cli.h"

struct screen {
    struct cli *cli;
    struct termios saved;
    bool has_keys;       /* stdin is a terminal */
    bool ends_by_itself; /* the end of stdin is no reason to quit. The command may set it */
    bool is_deaf;        /* stdin has ended */
    FILE *err;           /* the command's; cli->err is a buffer meanwhile */
    char *errors;
    size_t error_bytes;
};

/* Switches to the alternate screen. */
void screen_open(struct screen *s, struct cli *cli);
void screen_close(struct screen *s);

/* Overwrites the screen from the top left; lines that do not fit are cut off. False: the output is closed. */
bool screen_draw(struct screen *s, const struct buf *text);

/* Waits for ms. True: the user wants to quit, by q or by a signal. */
bool screen_wait(struct screen *s, int64_t ms);
