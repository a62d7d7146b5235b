#pragma once
/* core/time/crontab.h - reads the lines of a crontab that call a URL.
 *
 * A line's command is split as a shell splits it. `curl` and `wget` become an HTTP call if all their options can be
 * expressed by one. All other lines (pipes, other programs, variables) are refused with a reason, so that a person can
 * decide. */
#include "base/arena.h"
#include "core/time/cron.h"

enum { CRONTAB_HEADERS_MAX = 32 };

struct crontab_call {
    struct str url, method;                  /* method empty: GET without a body, else POST */
    struct str body;                         /* p NULL: none */
    struct str headers[CRONTAB_HEADERS_MAX]; /* "Name: value" */
    size_t header_count;
    int64_t timeout_ms; /* 0: not given */
};

enum crontab_kind {
    CRONTAB_NOTHING, /* blank */
    CRONTAB_COMMENT, /* text */
    CRONTAB_SETTING, /* name and text: CRON_TZ=Europe/Berlin */
    CRONTAB_CALL,    /* schedule and call */
    CRONTAB_REFUSED, /* reason */
};

struct crontab_line {
    enum crontab_kind kind;
    struct str schedule; /* five fields, or @daily */
    struct str name, text;
    struct crontab_call call;
    struct error reason;
};

/* Reads one line, without its end. has_user: a sixth field names the user (/etc/crontab). Everything lives in the arena
 * or in the line. */
void crontab_read(struct str line, bool has_user, struct arena *a, struct crontab_line *ret);
