#pragma once
/* core/notify/notification.h - one message about an incident: its state and its attempts.
 *
 * A message has the same id however often it is sent. It is made in the transaction that changes its incident. The node
 * that sends it takes it for a while. If that node does not report in time, the message is sent again. */
#include "core/notify/incident.h"

#define MESSAGE_STATE_MAP(X) X(WAITING) X(SENDING) X(SENT) X(FAILED) X(DROPPED)
enum notification_state {
#define X(name) MESSAGE_##name,
    MESSAGE_STATE_MAP(X)
#undef X
};
enum { MESSAGE_STATES = MESSAGE_DROPPED + 1 };
extern const char *const notification_state_names[MESSAGE_STATES + 1];

enum {
    MESSAGE_ATTEMPTS_MAX = 8,
    MESSAGE_RETRY_MS = 5000, /* the first delay; each is four times the one before, up to the next */
    MESSAGE_RETRY_MAX_MS = 3600000,
    MESSAGE_EXPIRES_MS = 86400000,
    MESSAGE_LAST_MS = 60000,    /* before that: Retry-After asks for no later attempt */
    MESSAGE_TIMEOUT_MS = 10000, /* of one attempt */
    MESSAGE_TAKEN_MS = 20000,   /* a node that sends a message has it for so long */
    MESSAGE_ERROR_MAX = 1024,
    MESSAGE_NAME_MAX = 100,    /* of its task: bytes */
    MESSAGE_HISTORY_MAX = 20,  /* the first one, and the latest */
    MESSAGE_ACT_TEXT_MAX = 200 /* of a text in it: bytes */
};

/* What became of a message, once an attempt has ended, and who sent it again. */
#define MESSAGE_ACT_MAP(X)                                                                                             \
    X(SENT)                                                                                                            \
    X(FAILED)                                                                                                          \
    X(LOST) /* the node that made the attempt did not report */                                                        \
    X(RESENT)
enum notification_act_kind {
#define X(name) MESSAGE_ACT_##name,
    MESSAGE_ACT_MAP(X)
#undef X
};
enum { MESSAGE_ACTS = MESSAGE_ACT_RESENT + 1 };

struct notification_act {
    int64_t at_ms;
    int what;      /* enum notification_act_kind */
    struct str by; /* RESENT: the API key */
    int64_t http_status;
    struct str error;
};

struct notification {
    struct uuid id, incident, setting;
    int type, channel, state; /* enum notification_type, channel_kind, notification_state */
    int64_t step;             /* from 1 on; 0: the setting's own channel */
    int64_t created_ms, attempts, http_status;
    int64_t sent_ms;         /* when it first arrived; 0: it did not */
    int64_t resent_ms;       /* when it was last sent again; 0: it was not */
    int64_t attempts_before; /* attempts before that */
    int64_t count;           /* SUPPRESSED: how many messages were not made */
    struct str error;
    /* What its incident was about when it was made; empty: it has none, or a version that did not note it made it */
    struct str kind, cause, task_name;
    struct uuid task;                 /* the first one; nil: none */
    struct notification_act *history; /* the oldest first */
    size_t history_count;
};

enum err notification_read(struct str doc, struct arena *a, struct notification *ret, struct error *e) must_use;
void notification_write(struct jw *w, const struct notification *m); /* one object */
/* Writes the member `history` into an object that is open. shown: as the API shows it, not as notification_read wants
 * it. */
void notification_write_history(struct jw *w, const struct notification *m, bool shown);

/* Notes the kind, the cause and the first task of its incident. Texts are borrowed. */
void notification_set_about(struct notification *m, const struct incident *i);
/* Adds to the history; false if the arena is full. */
bool notification_add_act(struct notification *m, const struct notification_act *act, struct arena *a) must_use;
/* It is to be sent once more, with all attempts that a new message has. */
void notification_resend(struct notification *m, int64_t now_ms);
/* No further attempt is made. */
bool notification_is_used_up(const struct notification *m);

/* A node is about to send it. If the node that had it before did not report, its attempt is made again: nodes that die
 * do not use up the attempts. False: it is too old for that, and FAILED. */
bool notification_take(struct notification *m, int64_t now_ms) must_use;
/* It may still be sent. */
bool notification_is_young(const struct notification *m, int64_t now_ms);
/* When the next attempt comes after one that failed; 0: there is none. asked_ms: Retry-After; -1: none. A place that
 * asks for longer than the message has left gets it once more shortly before its end. */
int64_t notification_retry_at(const struct notification *m, int64_t asked_ms, int64_t now_ms);
