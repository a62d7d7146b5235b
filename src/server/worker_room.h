#pragma once
/* server/worker_room.h - whether the machine of a worker has room for another task. Pure. */
#include <stddef.h>

#include "platform/machine.h"

/* What the machine lacks: more than 90 % of the memory is in use, or the load exceeds 32 per core. */
enum worker_lack { WORKER_LACKS_NOTHING, WORKER_LACKS_MEMORY, WORKER_LACKS_CPU };
enum worker_lack worker_room_lack(const struct machine *m);
const char *worker_lack_name(enum worker_lack lack); /* "memory", "load"; NULL: nothing */

/* With a high load the worker still runs one task at a time, so that tasks do not starve. Without free memory it takes
 * none. */
bool worker_room_may_take(enum worker_lack lack, size_t running);
