#pragma once
/* tests/support/http_socket.h - a socket to an HTTP server of the test, and what handlers of such servers have in
 * common. A test that hears nothing for 20 s fails instead of hanging. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "check.h"
#include "http/server.h"

/* from: the client's address; NULL: any. receive_buffer 0: as usual. */
static inline int http_socket_connect(uint16_t port, const char *from, int receive_buffer)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = { .sin_family = AF_INET };
    struct timeval patience = { .tv_sec = 20 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (receive_buffer)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    if (from) {
        inet_pton(AF_INET, from, &a.sin_addr);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    }
    a.sin_port = htons(port);
    inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static inline void http_socket_say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* All that comes until the server closes; or up to the text `until`. Valid until the next call. */
static inline const char *http_socket_hear(int fd, const char *until)
{
    static char text[65536];
    size_t n = 0;
    text[0] = '\0';
    while (n < sizeof text - 1 && !(until && n >= strlen(until) && strcmp(text + n - strlen(until), until) == 0)) {
        ssize_t got = recv(fd, text + n, until ? 1 : sizeof text - 1 - n, 0);
        if (got <= 0)
            break;
        n += (size_t)got;
        text[n] = '\0';
    }
    return text;
}

/* on_refuse of a handler: the text is the body. */
static inline void http_refuse_in_words(void *context, int status, const char *text, struct http_answer *ret)
{
    (void)context;
    struct buf body;
    buf_init(&body, 1000);
    buf_text(&body, text);
    ret->status = status;
    http_answer_set_body(ret, &body);
}
