#pragma once
/* api/server/listen.h - opens a listening socket on an address as users write it: "127.0.0.1:8080", "[::1]:8080",
 * "localhost:0". Any thread. */
#include <stdint.h>

#include "base/err.h"

enum err listen_address_check(const char *address, struct error *e) must_use; /* only its form */
enum err listen_socket_open(const char *address, int *ret_fd, struct error *e) must_use;
uint16_t listen_socket_port(int fd); /* the port that it is bound to */
