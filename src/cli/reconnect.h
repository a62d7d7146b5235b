#pragma once
/* cli/reconnect.h - a command that waits for long goes on after a restart of the server.
 *
 *   reconnect_init(&r, client);             after the first answer: a server that never answered is an error at once
 *   do code = …; while (reconnect_again(&r, code, true) && …pause…);
 *   if (code == EXIT_UNREACHABLE) return reconnect_fail(&r); */
#include "cli/client.h"

enum { RECONNECT_MINUTES = 5 };

struct reconnect {
    struct client *client;
    int64_t lost_ns; /* since when the server is not reached; 0: it is */
};

/* The client becomes patient (cli/client.h). */
void reconnect_init(struct reconnect *r, struct client *c);

/* Notes what a call has returned. True: the server was not reached, and the call is to be repeated; after
 * RECONNECT_MINUTES it is not. says: prints to stderr when the server is lost and when it is back. */
bool reconnect_again(struct reconnect *r, enum exit_code code, bool says);

/* Prints that the server was not reached. */
enum exit_code reconnect_fail(const struct reconnect *r);
