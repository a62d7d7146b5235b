/* Measures how many tasks a second the API accepts: the real server, batcher and store, and a client in the same
 * process with one request at a time on each of its connections.
 *
 *   bench_http FOLDER|memory [CONNECTIONS [BATCH [SECONDS]]]      BATCH 1: single creates */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/auth/admin_keys.h"
#include "api/auth/auth.h"
#include "api/server/api_server.h"
#include "model/store_memory.h"
#include "platform/batcher.h"
#include "platform/clock_system.h"
#include "platform/zoneinfo_system.h"
#include "store/sqlite/store_sqlite.h"

#define PEPPER S("0123456789abcdef")

struct client {
    int fd;
    size_t got; /* received bytes of the answer */
    size_t want;
    char head[1024];
};

static const char element[] =
    "{\"name\":\"bench task\",\"task_type\":\"bench\",\"run_at\":\"2099-01-01T00:00:00Z\",\"target_type\":\"HTTP_CALLBACK\","
    "\"target_config\":{\"url\":\"https://example.com/hook/0123456789\",\"method\":\"POST\",\"body\":{\"customer\":42,"
    "\"text\":\"some words that make the body about three hundred bytes long in all\"}},\"metadata\":{\"team\":\"a\"}}";

static int connect_to(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
        perror("connect");
        exit(1);
    }
    return fd;
}

static void send_request(struct client *c, const char *key, size_t batch)
{
    static struct buf text, body;
    static unsigned long n;
    if (!body.max) {
        buf_init(&body, 64 << 20);
        buf_init(&text, 64 << 20);
        if (batch > 1)
            buf_char(&body, '[');
        for (size_t i = 0; i < batch; i++)
            buf_printf(&body, "%s%s", i ? "," : "", element);
        if (batch > 1)
            buf_char(&body, ']');
    }
    buf_reset(&text);
    buf_printf(
        &text,
        "POST /v1/tasks%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nIdempotency-Key: bench-%lu\r\n"
        "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
        batch > 1 ? "/batch" : "", key, n++, body.n);
    buf_add(&text, buf_str(&body));
    for (size_t at = 0; at < text.n;) {
        ssize_t k = send(c->fd, text.p + at, text.n - at, MSG_NOSIGNAL);
        if (k <= 0) {
            perror("send");
            exit(1);
        }
        at += (size_t)k;
    }
    c->got = c->want = 0;
}

/* True: the answer is complete. */
static bool receive(struct client *c)
{
    char rest[65536];
    bool in_head = c->want == 0;
    ssize_t n =
        in_head ? recv(c->fd, c->head + c->got, sizeof c->head - 1 - c->got, 0) : recv(c->fd, rest, sizeof rest, 0);
    if (n <= 0) {
        fprintf(stderr, "the server closed a connection\n");
        exit(1);
    }
    c->got += (size_t)n;
    if (in_head) {
        c->head[c->got] = '\0';
        const char *end = strstr(c->head, "\r\n\r\n"), *length = strcasestr(c->head, "content-length:");
        if (!end || !length)
            return false;
        if (strncmp(c->head, "HTTP/1.1 201", 12) != 0) {
            fprintf(stderr, "%s\n", c->head);
            exit(1);
        }
        c->want = (size_t)(end - c->head) + 4 + strtoul(length + 15, NULL, 10);
    }
    return c->got >= c->want;
}

/* CPU time of the whole process, including the client. Other load of the machine does not change it. */
static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void run(uint16_t port, const char *key, size_t connections, size_t batch, double seconds)
{
    struct client *clients = xcalloc(connections, sizeof *clients);
    int epoll = epoll_create1(0);
    for (size_t i = 0; i < connections; i++) {
        clients[i].fd = connect_to(port);
        struct epoll_event e = { .events = EPOLLIN, .data.ptr = &clients[i] };
        epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &e);
        send_request(&clients[i], key, batch);
    }
    int64_t start = clock_steady_ns(clock_system()), now = start;
    double cpu = cpu_seconds();
    size_t done = 0;
    while ((now = clock_steady_ns(clock_system())) - start < (int64_t)(seconds * 1e9)) {
        struct epoll_event events[64];
        int n = epoll_wait(epoll, events, 64, 100);
        for (int i = 0; i < n; i++) {
            struct client *c = events[i].data.ptr;
            if (!receive(c))
                continue;
            done++;
            send_request(c, key, batch);
        }
    }
    double took = (double)(now - start) / 1e9;
    printf("%zu connections, %zu a request: %.0f requests/s, %.0f tasks/s, %.1f us of CPU a task\n", connections, batch,
           (double)done / took, (double)(done * batch) / took, (cpu_seconds() - cpu) * 1e6 / (double)(done * batch));
    for (size_t i = 0; i < connections; i++)
        close(clients[i].fd);
    free(clients);
}

static size_t number(int argc, char **argv, int i, size_t preset)
{
    return argc > i ? strtoul(argv[i], NULL, 10) : preset;
}

static enum err open_store(const char *where, struct store **ret, struct error *e)
{
    if (strcmp(where, "memory") == 0) {
        *ret = store_memory_new();
        return ERR_OK;
    }
    return store_sqlite_open(where, 0, ret, e);
}

int main(int argc, char **argv)
{
    struct error e = { 0 };
    struct store *store = NULL;
    struct api_server *server = NULL;
    char key[AUTH_KEY_TEXT + 1];
    if (argc < 2 || open_store(argv[1], &store, &e) || auth_bootstrap(store, PEPPER, 1, key, &e)) {
        fprintf(stderr, "bench_http FOLDER|memory [CONNECTIONS [BATCH [SECONDS]]]: %s\n", e.text);
        return 2;
    }
    struct metrics *metrics = metrics_new();
    struct zoneinfo *zones = zoneinfo_system_new(NULL);
    struct batcher *batcher = batcher_new(store, metrics, clock_system());
    struct api_setup setup = { .listen = "127.0.0.1:0", .store = store, .writer = batcher_writer(batcher) };
    setup.clock = clock_system();
    setup.zones = zones;
    setup.metrics = metrics;
    setup.pepper = PEPPER;
    if (api_server_new(&setup, &server, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    run(api_server_port(server), key, number(argc, argv, 2, 64), number(argc, argv, 3, 1),
        (double)number(argc, argv, 4, 3));
    api_server_free(server);
    batcher_free(batcher);
    store_free(store);
    zoneinfo_free(zones);
    metrics_free(metrics);
    return 0;
}
