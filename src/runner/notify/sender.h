#pragma once
/* runner/notify/sender.h - sends messages of notifications: HTTP calls to addresses that users give, guarded like those
 * of tasks, and mail to the operator's SMTP server. Apart from the runner of tasks, which may be stuck.
 *
 * One thread owns a sender. sender_wake may be called on any thread. */
#include "base/str.h"
#include "platform/ssrf_guard.h"

enum { SENDER_SLOTS = 16, SENDER_HEADERS_MAX = 8, SENDER_ERROR = 256 };

struct sender_setup {
    struct guard_setup guard;
    const char *ca_file;                              /* NULL: the system's */
    const char *smtp_url, *smtp_user, *smtp_password; /* NULL: no mail */
    bool smtp_plaintext;                              /* TLS is not required: the server is on this machine */
};

/* Texts end in NUL and are copied. */
struct send_request {
    struct str url;                          /* of an HTTP call */
    bool is_heartbeat;                       /* a GET to an address of the operator: it is not guarded */
    const char *headers[SENDER_HEADERS_MAX]; /* "Name: value"; NULL: no more */
    struct str body;
    const char *mail_from; /* NULL: an HTTP call */
    const struct str *mail_to;
    size_t mail_to_count;
    int64_t timeout_ms;
    void *context;
};

struct send_result {
    void *context;
    bool ok;
    bool is_final;            /* another attempt would not help */
    int64_t http_status;      /* or the code of SMTP; 0: none */
    int64_t retry_after_ms;   /* -1: none */
    char error[SENDER_ERROR]; /* if ok: which recipients of a mail were refused; else empty */
};

struct sender;
struct sender *sender_new(const struct sender_setup *setup);
void sender_free(struct sender *s); /* NULL is fine; breaks off what is under way */

size_t sender_room(const struct sender *s); /* how many more may be started */
void sender_start(struct sender *s, const struct send_request *r);
/* Waits until something has ended, sender_wake is called or the time has passed. Returns how many have ended. */
size_t sender_poll(struct sender *s, int wait_ms, int64_t now_ms, struct send_result ret[SENDER_SLOTS]);
void sender_wake(struct sender *s);
