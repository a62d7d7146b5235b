#pragma once
/* platform/async_io_direct.h - runs errands at once, on the thread of whoever submits them: for adapters in memory. */
#include "port/async_io.h"

struct courier *courier_direct_new(const struct courier_ports *ports); /* the ports are borrowed */
void courier_direct_free(struct courier *c);                           /* NULL is fine */
