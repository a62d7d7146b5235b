#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"

enum { BACKLOG = 1024 };

/* "host:port" or "[v6]:port" → host and port. */
static enum err listen_split_address(const char *listen, char host[64], char port[8], struct error *e)
{
    struct str text = str_from(listen);
    size_t colon = text.n;
    while (colon > 0 && text.p[colon - 1] != ':')
        colon--;
    struct str h = str_sub(text, 0, colon ? colon - 1 : 0), p = str_sub(text, colon, text.n);
    if (h.n > 2 && h.p[0] == '[' && h.p[h.n - 1] == ']')
        h = str_sub(h, 1, h.n - 1);
    int64_t number;
    if (colon == 0 || h.n == 0 || h.n >= 64 || !str_to_i64(p, 0, 65535, &number))
        return error_set(e, ERR_INVALID, "'%s' is not an address to listen on; give HOST:PORT, such as 127.0.0.1:8080",
                         listen);
    snprintf(host, 64, STR_FMT, STR_ARG(h));
    snprintf(port, 8, "%d", (int)number);
    return ERR_OK;
}

enum err listen_address_check(const char *address, struct error *e)
{
    char host[64], port[8];
    return listen_split_address(address, host, port, e);
}

bool listen_is_loopback(const char *address)
{
    char host[64], port[8];
    struct error ignored;
    struct in_addr v4;
    struct in6_addr v6;
    if (listen_split_address(address, host, port, &ignored))
        return false;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    return strcmp(host, "localhost") == 0 || (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

uint16_t listen_socket_port(int fd)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    char port[8];
    getsockname(fd, (struct sockaddr *)&bound, &size);
    int64_t number = 0;
    if (getnameinfo((struct sockaddr *)&bound, size, NULL, 0, port, sizeof port, NI_NUMERICSERV) == 0)
        (void)str_to_i64(str_from(port), 0, 65535, &number);
    return (uint16_t)number;
}

/* The first socket is bound alone, so that an address in use is noticed. Only then it may share its port. */
static int listen_bind(const struct sockaddr *to, socklen_t size, bool is_first, bool is_shared)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    bool ok = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
              (is_first || !setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one)) && !bind(fd, to, size) &&
              (!is_first || !is_shared || !setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one)) &&
              !listen(fd, BACKLOG);
    if (ok)
        return fd;
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

static enum err listen_error(const char *address, const char *option, int why, struct error *e)
{
    char text[128];
    return error_set(e, ERR_UNAVAILABLE, "listen on '%s': %s%s%s", address, strerror_r(why, text, sizeof text),
                     why == EADDRINUSE ? "; choose another address with " : "", why == EADDRINUSE ? option : "");
}

enum err listen_sockets_open(const char *address, const char *option, size_t count, int *ret_fds, struct error *e)
{
    char host[64], port[8];
    if (listen_split_address(address, host, port, e))
        return e->code;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *found = NULL;
    hints.ai_family = strcmp(host, "localhost") == 0 ? AF_INET : AF_UNSPEC;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed)
        return error_set(e, ERR_INVALID, "listen on '%s': %s", address, gai_strerror(failed));
    struct sockaddr_storage to;
    socklen_t size = found->ai_addrlen;
    memcpy(&to, found->ai_addr, size);
    freeaddrinfo(found);
    for (size_t i = 0; i < count; i++) {
        ret_fds[i] = listen_bind((struct sockaddr *)&to, size, i == 0, count > 1);
        int why = errno;
        if (ret_fds[i] < 0) {
            while (i > 0)
                close(ret_fds[--i]);
            return listen_error(address, option, why, e);
        }
        getsockname(ret_fds[0], (struct sockaddr *)&to, &size); /* port 0: the others share the port that it got */
    }
    return ERR_OK;
}
