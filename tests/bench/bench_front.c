/* Drives an HTTP server on loopback, one thread, one request at a time on each connection. tests/bench/front starts the servers.
 *
 *   bench_front read PORT CONNECTIONS SECONDS PATH KEY                each connection asks again when it has its answer
 *   bench_front create PORT CONNECTIONS SECONDS RATE IDLE KEY         RATE creates a second, on time whatever the answers do,
 *                                                                     while IDLE other connections are open
 *
 * Latencies of `create` are from the moment at which a request should have been sent, so a server that holds up a
 * connection is charged with what waits for it. Prints one line of JSON. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 256

static const char task[] =
    "{\"name\":\"bench task\",\"run_at\":\"2099-01-01T00:00:00Z\",\"target_type\":\"HTTP_CALLBACK\",\"target_config\":"
    "{\"url\":\"https://example.com/hook/0123456789\",\"method\":\"POST\",\"body\":{\"customer\":42,"
    "\"text\":\"some words that make the body about three hundred bytes long in all\"}},\"metadata\":{\"team\":\"a\"}}";

struct client {
    int fd;
    size_t got, want; /* bytes of the answer; want 0: its head is not complete */
    int64_t due_ns;   /* when its request should have been sent */
    char head[2048];
};

static struct {
    struct client *clients, **idle; /* idle: a ring of those without a request, `idles` of them from `first` on */
    size_t connections, first, idles;
    int epoll;
    const char *expected; /* how an answer begins */
} front;

static void die(const char *what)
{
    fprintf(stderr, "bench_front: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int connect_to(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to))
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

static void connect_all(uint16_t port, size_t connections)
{
    front.connections = front.idles = connections;
    front.clients = calloc(connections, sizeof *front.clients);
    front.idle = calloc(connections, sizeof(struct client *));
    front.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!front.clients || !front.idle || front.epoll < 0)
        die("no room");
    for (size_t i = 0; i < connections; i++) {
        struct client *c = front.idle[i] = &front.clients[i];
        c->fd = connect_to(port);
        struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
        if (epoll_ctl(front.epoll, EPOLL_CTL_ADD, c->fd, &e))
            die("epoll");
    }
}

static void send_request(struct client *c, const char *text, size_t n)
{
    if (send(c->fd, text, n, MSG_NOSIGNAL) != (ssize_t)n) /* small: it fits into the socket's buffer */
        die("send");
    c->got = c->want = 0;
}

/* True: the answer is complete. */
static bool receive(struct client *c)
{
    static char rest[65536];
    bool in_head = c->want == 0;
    ssize_t n =
        in_head ? recv(c->fd, c->head + c->got, sizeof c->head - 1 - c->got, 0) : recv(c->fd, rest, sizeof rest, 0);
    if (n <= 0)
        die("the server closed a connection");
    c->got += (size_t)n;
    if (in_head) {
        c->head[c->got] = '\0';
        const char *end = strstr(c->head, "\r\n\r\n"), *length = strcasestr(c->head, "content-length:");
        if (!end || !length)
            return false;
        if (strncmp(c->head, front.expected, strlen(front.expected)) != 0) {
            fprintf(stderr, "bench_front: %s\n", c->head);
            exit(1);
        }
        c->want = (size_t)(end - c->head) + 4 + strtoul(length + 15, NULL, 10);
    }
    return c->got >= c->want;
}

static void run_reads(double seconds, const char *path, const char *key)
{
    char request[512];
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
                     path, key);
    size_t done = 0, bytes = 0;
    for (size_t i = 0; i < front.connections; i++)
        send_request(&front.clients[i], request, (size_t)n);
    int64_t begun = now_ns(), now = begun;
    while ((now = now_ns()) - begun < (int64_t)(seconds * 1e9)) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(front.epoll, events, EVENTS, 100);
        for (int i = 0; i < ready; i++) {
            struct client *c = events[i].data.ptr;
            if (!receive(c))
                continue;
            done++;
            bytes += c->got;
            send_request(c, request, (size_t)n);
        }
    }
    printf("{\"requests\": %zu, \"per_second\": %.0f, \"bytes\": %.0f}\n", done,
           (double)done / ((double)(now - begun) / 1e9), (double)bytes / (double)done);
}

static void send_create(int64_t due_ns, const char *key)
{
    static unsigned long n;
    char request[1024];
    int size = snprintf(
        request, sizeof request,
        "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nIdempotency-Key: bench-%d-%lu\r\n"
        "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
        key, (int)getpid(), n++, sizeof task - 1, task);
    struct client *c = front.idle[front.first]; /* the one that was idle for longest: all of them are busy in turn */
    front.first = (front.first + 1) % front.connections;
    front.idles--;
    c->due_ns = due_ns;
    send_request(c, request, (size_t)size);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void report(int64_t *ns, size_t n, size_t waited)
{
    qsort(ns, n, sizeof *ns, compare);
    printf(
        "{\"requests\": %zu, \"waited_for_a_connection\": %zu, \"p50_ms\": %.2f, \"p99_ms\": %.2f, \"p999_ms\": %.2f, \"max_ms\": %.2f}\n",
        n, waited, (double)ns[n / 2] / 1e6, (double)ns[n * 99 / 100] / 1e6, (double)ns[n * 999 / 1000] / 1e6,
        (double)ns[n - 1] / 1e6);
}

static void run_creates(double seconds, double rate, const char *key)
{
    size_t all = (size_t)(seconds * rate), sent = 0, done = 0, waited = 0;
    int64_t *took = calloc(all, sizeof *took), begun = now_ns();
    if (!took)
        die("no room");
    while (done < all) {
        int64_t now = now_ns(), next;
        while ((next = begun + (int64_t)((double)sent * 1e9 / rate)) <= now && sent < all && front.idles) {
            waited += now - next > 1000000;
            send_create(next, key);
            sent++;
        }
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(front.epoll, events, EVENTS, sent < all && next - now < 1000000 ? 0 : 1);
        for (int i = 0; i < ready; i++) {
            struct client *c = events[i].data.ptr;
            if (!receive(c))
                continue;
            took[done++] = now_ns() - c->due_ns;
            front.idle[(front.first + front.idles++) % front.connections] = c;
        }
    }
    report(took, all, waited);
    free(took);
}

int main(int argc, char **argv)
{
    bool reads = argc == 7 && strcmp(argv[1], "read") == 0, creates = argc == 8 && strcmp(argv[1], "create") == 0;
    if (!reads && !creates) {
        fprintf(stderr,
                "bench_front read PORT CONNECTIONS SECONDS PATH KEY | create PORT CONNECTIONS SECONDS RATE IDLE KEY\n");
        return 2;
    }
    uint16_t port = (uint16_t)strtoul(argv[2], NULL, 10);
    for (size_t i = creates ? strtoul(argv[6], NULL, 10) : 0; i > 0; i--)
        (void)connect_to(port); /* open until this process ends */
    front.expected = reads ? "HTTP/1.1 200" : "HTTP/1.1 201";
    connect_all(port, strtoul(argv[3], NULL, 10));
    if (reads)
        run_reads(strtod(argv[4], NULL), argv[5], argv[6]);
    else
        run_creates(strtod(argv[4], NULL), strtod(argv[5], NULL), argv[7]);
    return 0;
}
