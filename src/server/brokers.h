#pragma once
/* server/brokers.h - the message brokers that QUEUE_MESSAGE tasks may name: the settings brokers.NAME = URL, and who
 * may use them: brokers.NAME.tenants and brokers.NAME.destinations. The thread that starts the process. */
#include "base/option/option.h"
#include "runner/message/runner_message.h"

enum { BROKERS_PREFIX_TEXT = 256 };

struct brokers {
    struct message_broker v[OPTION_LIST_MAX];
    size_t n;
    struct buf texts[OPTION_LIST_MAX];        /* the URLs, which may contain passwords */
    struct broker_rule rule[OPTION_LIST_MAX]; /* by broker */
    struct broker_rules rules;
    char own[2][BROKERS_PREFIX_TEXT]; /* for rules.own */
};

/* Reads every --broker NAME=URL. The URL may be in a file ("file:/path"). A password on the command line is overwritten
 * there (server/settings/secret_url.h). */
enum err brokers_read(const struct options *o, struct brokers *ret, struct error *e) must_use;
void brokers_release(struct brokers *b);

/* Closes the names of the fleet's own queue or events (core/target/broker_rules.h). An empty URL is fine. */
void brokers_close_own(struct brokers *b, struct str queue_url, struct str events_url);
