#pragma once
/* platform/ssrf_guard.h - decides which network addresses users' targets may connect to (core/target/address.h). Every
 * module that connects to a target's address asks it. */
#include <sys/socket.h>

#include "core/target/address.h"

enum { GUARD_OWN_MAX = 64 };

struct guard {
    struct address_policy policy;
    struct address_range *allowed;
    struct address own[GUARD_OWN_MAX]; /* this machine's interface addresses, read by guard_init */
};

/* allowed: ranges that are exempt from the blocked ones; copied. allow_loopback exempts 127.0.0.0/8 and ::1. The struct
 * must not be moved or copied afterwards, because it points into itself. */
void guard_init(struct guard *g, const struct address_range *allowed, size_t count, bool allow_loopback);
void guard_release(struct guard *g);

bool guard_allows(const struct guard *g, const struct sockaddr *to); /* false for a socket address that is not IP */
bool guard_allows_peer(const struct guard *g, int fd);               /* checks the peer of a connected socket */

/* Resolves a name and checks each of its addresses; false also if it has none. Blocks, so never call it on the loop's
 * thread. */
bool guard_allows_name(const struct guard *g, const char *name, bool *ret_found);

/* Converts a socket address; false for address families other than IPv4 and IPv6. */
bool address_of_sockaddr(const struct sockaddr *sa, struct address *ret);
