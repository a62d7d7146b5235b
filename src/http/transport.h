#pragma once
/* http/transport.h - the bytes below a connection. The connection knows no socket calls: TLS is another row of
 * operations. Nothing here blocks. The thread of the connection. */
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { TRANSPORT_LATER = -1, TRANSPORT_BROKEN = -2 };

struct transport {
    const struct transport_ops *ops;
    int fd;
};

struct transport_ops {
    /* Bytes; 0: the peer sends no more; TRANSPORT_LATER: none yet; TRANSPORT_BROKEN. */
    ssize_t (*receive)(struct transport *t, char *into, size_t n);
    /* Bytes that were accepted, perhaps fewer than given; or one of the above. */
    ssize_t (*send)(struct transport *t, struct iovec *pieces, size_t count);
    void (*end)(struct transport *t); /* nothing more is sent; the peer may still send */
};

/* A TCP socket. It does not own the descriptor. */
void transport_init_plain(struct transport *t, int fd);
