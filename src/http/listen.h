#pragma once
/* http/listen.h - opens listening sockets on an address as users write it: "127.0.0.1:8080", "[::1]:8080",
 * "localhost:0". Any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Whether only this machine can reach it: 127.0.0.0/8, ::1 or localhost, by its text. */
bool listen_is_loopback(const char *address) must_use;
enum err listen_address_check(const char *address, struct error *e) must_use; /* only its form */
/* Opens `count` sockets on one address; the kernel spreads the connections over them. If another process listens on the
 * address, that is an error, also if it has several sockets. */
enum err listen_sockets_open(const char *address, const char *option, size_t count, int *ret_fds,
                             struct error *e) must_use;
uint16_t listen_socket_port(int fd); /* the port that it is bound to */
