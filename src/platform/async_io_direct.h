#pragma once
/* platform/async_io_direct.h - runs errands at once, on the thread of whoever submits them: for adapters in memory. */
#include "port/async_io.h"

struct async_io *async_io_direct_new(const struct async_io_ports *ports); /* the ports are borrowed */
void async_io_direct_free(struct async_io *c);                            /* NULL is fine */
