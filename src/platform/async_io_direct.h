#pragma once
/* platform/async_io_direct.h - runs I/O requests at once, on the submitter's thread: for adapters in memory. */
#include "port/async_io.h"

struct async_io *async_io_direct_new(const struct async_io_ports *ports); /* the ports are borrowed */
void async_io_direct_free(struct async_io *c);                            /* NULL is allowed */
