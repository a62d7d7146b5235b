#pragma once
/* server/brokers.h - the brokers that tasks may name as their target (QUEUE_MESSAGE): brokers.NAME = URL. */
#include "base/option/option.h"
#include "runner/message/runner_message.h"

struct brokers {
    struct message_broker v[OPTION_LIST_MAX];
    size_t n;
    struct buf texts[OPTION_LIST_MAX]; /* of the addresses, which have passwords in them */
};

/* What --broker NAME=URL says, each; an address may be in a file ("file:/path"), and what stands on the command line is covered there
 * (server/secret_url.h). */
enum err brokers_read(const struct options *o, struct brokers *ret, struct error *e) must_use;
void brokers_release(struct brokers *b);
