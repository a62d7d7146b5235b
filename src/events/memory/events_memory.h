#pragma once
/* events/memory/events_memory.h - the events of a process that settles the outcomes of its own workers.
 *
 * They live as long as the process and have no lock: all calls come from the one loop that drives worker and
 * updater. */
#include "port/events.h"

struct events *events_memory_new(void);
