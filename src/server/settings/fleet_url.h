#pragma once
/* server/settings/fleet_url.h - the URLs of a fleet's queue, events and lease, and the adapter behind each URL scheme.
 *
 * A table has a row for each scheme. A scheme that this binary was built without, or a wrong URL, is refused at the
 * start, not when the first task is due. */
#include "base/option/option.h"
#include "platform/async_io_threads.h"

struct fleet_urls {
    struct buf queue, events, lease; /* empty: not given */
};

/* Reads --queue, --events and, if the command has it, --lease. Passwords on the command line are overwritten there
 * (server/settings/secret_url.h). */
enum err fleet_urls_read(const struct options *o, struct fleet_urls *ret, struct error *e) must_use;
void fleet_urls_release(struct fleet_urls *u);

struct fleet_setup {
    const struct fleet_urls *urls;
    const struct queue_names *names;   /* for pushing tasks; NULL: this process pushes none */
    const struct queue_filter *filter; /* for taking tasks; NULL: this process takes none */
    bool polls;                        /* this process polls events and settles them */
};

/* Ports that are not connected yet: the first call of each port connects. */
struct fleet {
    struct async_io_ports ports;
    bool wanted[ASYNC_IO_CHANNELS]; /* as in async_io_threads_setup */
};

enum err fleet_open(const struct fleet_setup *setup, struct fleet *ret, struct error *e) must_use;
void fleet_release(struct fleet *f); /* frees the ports that no I/O thread took */

/* Starts the I/O threads, which take the ports. Free them before the fleet is released. */
enum err fleet_start_threads(struct fleet *f, struct loop *loop, struct async_io **ret, struct error *e) must_use;

/* `open` of struct async_io_threads_setup, with the fleet as context: moves the channel's port to its I/O thread. */
enum err fleet_take_port(void *context, enum async_io_channel channel, struct async_io_ports *ret,
                         struct error *e) must_use;
