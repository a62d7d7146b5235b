/* The lock of the link that takes and acknowledges, and waiting for what arrives on it. Another thread may read it
 * first: it wakes those that wait. */
#include <poll.h>
#include <unistd.h>

#include "queue/amqp/internal.h"

enum { LOOK_AGAIN_MS = 250 }; /* how long a broken link may go unnoticed while waiting */

void hub_lock(struct queue_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
}

/* The thread that unlocks may have read what another thread waits for. */
void hub_unlock(struct queue_hub *hub)
{
    bool wake = hub->waiting > 0;
    pthread_mutex_unlock(&hub->lock);
    if (wake)
        (void)!write(hub->wake_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

void hub_wait(struct queue_hub *hub, int64_t ms)
{
    struct pollfd fds[] = { { .fd = rabbit_fd(&hub->link), .events = POLLIN },
                            { .fd = hub->wake_fd, .events = POLLIN } };
    uint64_t count;
    hub->waiting++;
    pthread_mutex_unlock(&hub->lock);
    (void)poll(fds, array_count(fds), (int)min_of(max_of(ms, 0), LOOK_AGAIN_MS));
    pthread_mutex_lock(&hub->lock);
    hub->waiting--;
    if (fds[1].revents)
        (void)!read(hub->wake_fd, &count, sizeof count);
}
