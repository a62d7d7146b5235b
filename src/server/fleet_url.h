#pragma once
/* server/fleet_url.h - the addresses of a fleet's queue, events and lease, and which adapter stands behind each.
 *
 * A scheme is a row. What a binary was built without, and an address that makes no sense, are refused by name at the start, not when the
 * first task is due. */
#include "base/option/option.h"
#include "platform/async_io_threads.h"

struct fleet_urls {
    struct buf queue, events, lease; /* empty: not given */
};

/* What --queue, --events and --lease say; o has the first two at least. Passwords are kept out of sight (server/secret_url.h). */
enum err fleet_urls_read(const struct options *o, struct fleet_urls *ret, struct error *e) must_use;
void fleet_urls_release(struct fleet_urls *u);

struct fleet_setup {
    const struct fleet_urls *urls;
    const struct queue_names *names;   /* of who pushes; NULL: nobody does */
    const struct queue_filter *filter; /* of who takes; NULL: nobody does */
    bool polls;                        /* what happened is settled here */
};

/* Ports that nobody has connected yet: they are there, and the first call of each tells whether its server is. */
struct fleet {
    struct async_io_ports ports;
    bool wanted[ASYNC_IO_PLACES];
};

enum err fleet_open(const struct fleet_setup *setup, struct fleet *ret, struct error *e) must_use;
void fleet_release(struct fleet *f); /* those that no courier took */

/* For courier_threads, whose context is the fleet: the place's port goes there. */
enum err fleet_take_port(void *context, enum async_io_channel place, struct async_io_ports *ret,
                         struct error *e) must_use;
