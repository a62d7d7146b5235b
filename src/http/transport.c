#include "http/transport.h"

#include <errno.h>
#include <sys/socket.h>

static ssize_t transport_plain_result(struct transport *t, ssize_t n, enum transport_wants wants)
{
    t->wants = wants;
    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? TRANSPORT_LATER : TRANSPORT_BROKEN;
}

static ssize_t transport_plain_receive(struct transport *t, char *into, size_t n)
{
    return transport_plain_result(t, recv(t->fd, into, n, 0), TRANSPORT_READABLE);
}

static ssize_t transport_plain_send(struct transport *t, struct iovec *pieces, size_t count)
{
    struct msghdr message = { .msg_iov = pieces, .msg_iovlen = count };
    return transport_plain_result(t, sendmsg(t->fd, &message, MSG_NOSIGNAL), TRANSPORT_WRITABLE);
}

static void transport_plain_end(struct transport *t)
{
    shutdown(t->fd, SHUT_WR);
}

static void transport_plain_release(struct transport *t)
{
    (void)t;
}

void transport_init_plain(struct transport *t, int fd)
{
    static const struct transport_ops ops = { .receive = transport_plain_receive,
                                              .send = transport_plain_send,
                                              .end = transport_plain_end,
                                              .release = transport_plain_release };
    *t = (struct transport){ .ops = &ops, .fd = fd };
}
