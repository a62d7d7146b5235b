#pragma once
/* http/transport.h - the bytes below a connection. The connection knows no socket calls: TLS is another row of
 * operations. Nothing here blocks. The thread of the connection. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct tls;
struct tls_client;

enum { TRANSPORT_LATER = -1, TRANSPORT_BROKEN = -2 };

enum transport_wants { TRANSPORT_READABLE = 1, TRANSPORT_WRITABLE = 2 };

struct transport {
    const struct transport_ops *ops;
    int fd;
    void *session;              /* of TLS; else NULL */
    enum transport_wants wants; /* after TRANSPORT_LATER: what to wait for. TLS may have to write to be able to read */
    bool has_more;              /* received bytes that no event of the socket tells of: receive again */
};

enum transport_greeting {
    GREETING_DONE,
    GREETING_LATER, /* see `wants` */
    GREETING_PLAIN, /* the client speaks plain HTTP */
    GREETING_BROKEN,
};

struct transport_ops {
    /* The handshake; call it until it is done. NULL: there is none. why: of GREETING_BROKEN, for the log. */
    enum transport_greeting (*greet)(struct transport *t, const char **why);
    /* Bytes; 0: the peer sends no more; TRANSPORT_LATER: none yet; TRANSPORT_BROKEN. */
    ssize_t (*receive)(struct transport *t, char *into, size_t n);
    /* Bytes that were accepted, perhaps fewer than given; or one of the above. After TRANSPORT_LATER, the same bytes
     * must be sent again before others. */
    ssize_t (*send)(struct transport *t, struct iovec *pieces, size_t count);
    void (*end)(struct transport *t);     /* nothing more is sent; the peer may still send */
    void (*release)(struct transport *t); /* the descriptor stays open */
};

/* A TCP socket. It does not own the descriptor. */
void transport_init_plain(struct transport *t, int fd);

/* The same with TLS, with the certificate that is in use now. */
void transport_init_tls(struct transport *t, int fd, struct tls *tls);

/* The certificate of the client, once the handshake is done; NULL: it has none. The caller frees it. */
struct tls_client *transport_client(const struct transport *t);
