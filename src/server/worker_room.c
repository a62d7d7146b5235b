#include "server/worker_room.h"

enum { MEMORY_FULL_PERCENT = 90, LOAD_FULL = 32 /* per core */ };

enum worker_lack worker_room_lack(const struct machine *m)
{
    if (m->memory_mb && m->memory_used_mb * 100 > m->memory_mb * MEMORY_FULL_PERCENT)
        return WORKER_LACKS_MEMORY;
    return m->load * 1000 > (double)m->cpu_milli * LOAD_FULL ? WORKER_LACKS_CPU : WORKER_LACKS_NOTHING;
}

const char *worker_lack_name(enum worker_lack lack)
{
    static const char *const names[] = { [WORKER_LACKS_MEMORY] = "memory", [WORKER_LACKS_CPU] = "load" };
    return names[lack];
}

bool worker_room_may_take(enum worker_lack lack, size_t running)
{
    return lack == WORKER_LACKS_NOTHING || (lack == WORKER_LACKS_CPU && running == 0);
}
