#pragma once
/* api/server/listen.h - a socket that listens on an address as users write it: "127.0.0.1:8080", "[::1]:8080", "localhost:0". */
#include <stdint.h>

#include "base/err.h"

enum err listen_on(const char *address, int *ret_fd, struct error *e) must_use;
uint16_t listening_port(int fd); /* that it got */
