#pragma once
/* core/target/target_url.h - a glance at where an HTTP target goes, for who counts or shows something a host or a place.
 *
 * Nothing is ever called by what comes out of it: whether it is a URL at all is for the runner's parser to say. Asked before each
 * call, so it costs no memory and little time. */
#include "core/task/task.h"

enum { TARGET_URL_MAX = 1024 /* looked at; the rest is cut off */, TARGET_HOST_MAX = 255 };

struct target_url {
    struct str scheme, host,
        path;                  /* as they were written; host with port, without user and password; path without query */
    char text[TARGET_URL_MAX]; /* where they point, if the url had escapes */
};

/* False for other targets, and when there is no url with a scheme and a host to be seen. ret must not move. */
bool target_url_read(const struct task *t, struct target_url *ret);

/* Host and port, small letters, without the scheme's own port: "api.example.com:8443". Of a message its broker: its name, or its hosts. Empty
 * when there is none. */
struct str target_host(const struct task *t, char out[TARGET_HOST_MAX]);
struct str target_url_host(const struct target_url *u, char out[TARGET_HOST_MAX]);
