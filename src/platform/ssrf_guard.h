#pragma once
/* platform/ssrf_guard.h - which addresses of the network users' targets may lead to (core/target/address.h), for everything that connects to one. */
#include <sys/socket.h>

#include "core/target/address.h"

enum { GUARD_OWN_MAX = 64 };

struct guard {
    struct address_policy policy;
    struct address_range *allowed;
    struct address own[GUARD_OWN_MAX]; /* this machine's interfaces, as they were when it was made */
};

/* allowed: blocked otherwise; copied. Loopback is 127.0.0.0/8 and ::1. It must not move. */
void guard_init(struct guard *g, const struct address_range *allowed, size_t count, bool allow_loopback);
void guard_release(struct guard *g);

bool guard_allows(const struct guard *g, const struct sockaddr *to); /* not what is no IP address */
bool guard_allows_peer(const struct guard *g, int fd);               /* of a connected socket */

/* Looks a name up, and every address that it has; false also if it has none. Blocks: not for the loop's thread. */
bool guard_allows_name(const struct guard *g, const char *name, bool *ret_found);

/* An address of the system's kind as one of ours; false for other families. */
bool address_of_sockaddr(const struct sockaddr *sa, struct address *ret);
