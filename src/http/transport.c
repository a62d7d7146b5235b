#include "http/transport.h"

#include <errno.h>
#include <sys/socket.h>

static ssize_t transport_result(ssize_t n)
{
    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? TRANSPORT_LATER : TRANSPORT_BROKEN;
}

static ssize_t transport_plain_receive(struct transport *t, char *into, size_t n)
{
    return transport_result(recv(t->fd, into, n, 0));
}

static ssize_t transport_plain_send(struct transport *t, struct iovec *pieces, size_t count)
{
    struct msghdr message = { .msg_iov = pieces, .msg_iovlen = count };
    return transport_result(sendmsg(t->fd, &message, MSG_NOSIGNAL));
}

static void transport_plain_end(struct transport *t)
{
    shutdown(t->fd, SHUT_WR);
}

void transport_init_plain(struct transport *t, int fd)
{
    static const struct transport_ops ops = { transport_plain_receive, transport_plain_send, transport_plain_end };
    *t = (struct transport){ &ops, fd };
}
