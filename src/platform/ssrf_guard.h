#pragma once
/* platform/ssrf_guard.h - decides which network addresses users' targets may connect to: the table of
 * core/target/blocked_addresses.h, what an operator allows, and the addresses of this machine. All modules that connect
 * to a target ask it. Any thread may ask. */
#include <sys/socket.h>

#include "core/target/blocked_addresses.h"

/* For a task that calls such an address. Of a name it must not be said: that would tell where the name leads. */
#define GUARD_NOT_FOUND "host name not found, or its address is not allowed"
#define GUARD_REFUSED   "address is not allowed: it is not public, and http.allow does not list it"

/* For loopback, after guard_setup.loopback_holds has ended. */
#define GUARD_REFUSED_NOW GUARD_REFUSED "; it was allowed while 'default' was the only tenant"

struct guard_setup {
    const struct address_range *allowed; /* exempt from the blocked ranges; copied */
    size_t allowed_count;
    bool allow_loopback;                   /* 127.0.0.0/8 and ::1 */
    bool (*loopback_holds)(void *context); /* whether allow_loopback holds now; NULL: always. Any thread calls it */
    void *context;
};

struct guard {
    struct guard_setup setup;
    struct address_policy policy;
    struct address_range *allowed; /* those of the setup, then loopback */
    struct guard_own *own;         /* this machine's interface addresses */
};

void guard_init(struct guard *g, const struct guard_setup *setup);
void guard_release(struct guard *g);

bool guard_allows(const struct guard *g, const struct sockaddr *to); /* false for a socket address that is not IP */
bool guard_allows_address(const struct guard *g, struct address a, int port); /* port 0: not known yet */
bool guard_allows_peer(const struct guard *g, int fd); /* checks the peer of a connected socket */

/* Why such an address is refused: GUARD_REFUSED or GUARD_REFUSED_NOW. */
const char *guard_refusal(const struct guard *g, struct address a);

/* Resolves a name and checks each of its addresses; false also if it has none. Blocks, so never call it on the loop's
 * thread. */
bool guard_allows_name(const struct guard *g, const char *name);

/* Converts a socket address; false for address families other than IPv4 and IPv6. */
bool address_of_sockaddr(const struct sockaddr *sa, struct address *ret);
