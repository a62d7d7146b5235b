#pragma once
/* tests/support/redis_servers.h - Redis servers that a test starts, stops and queries, each with its own folder and
 * port. */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "check.h"
#include "scratch.h"

enum { SERVER_WORDS = 32, SERVER_URL = 512, SERVER_WAIT_MS = 20000 };

struct redis_process {
    pid_t pid; /* 0: not running */
    int port;
    char folder[64];
    const char *more[SERVER_WORDS]; /* further arguments, NULL-terminated */
    const char *password;           /* for queries */
};

static inline int64_t steady_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline void nap_ms(int64_t ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static inline int free_port(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    close(fd);
    return ntohs(a.sin_port);
}

/* Runs one command, words separated by blanks; NULL: no reply. The caller frees it. */
static inline redisReply *server_ask(const struct redis_process *s, const char *command)
{
    redisContext *c = redisConnectWithTimeout("127.0.0.1", s->port, (struct timeval){ .tv_sec = 1 });
    redisReply *r = NULL;
    if (c && !c->err) {
        (void)redisSetTimeout(c, (struct timeval){ .tv_sec = 2 });
        if (s->password) {
            redisReply *auth = redisCommand(c, "AUTH %s", s->password);
            if (auth)
                freeReplyObject(auth);
        }
        r = redisCommand(c, command);
    }
    if (c)
        redisFree(c);
    return r;
}

/* The first line or number of the reply as text; "" if there is none. */
static inline void server_text(const struct redis_process *s, const char *command, char *out, size_t size)
{
    redisReply *r = server_ask(s, command);
    out[0] = '\0';
    if (r && r->type == REDIS_REPLY_INTEGER)
        snprintf(out, size, "%lld", r->integer);
    else if (r && r->str)
        snprintf(out, size, "%s", r->str);
    if (r)
        freeReplyObject(r);
}

static inline void server_do(const struct redis_process *s, const char *command)
{
    char text[256];
    server_text(s, command, text, sizeof text);
    if (text[0] == '\0' || strncmp(text, "ERR", 3) == 0)
        fail_msg("%s: %s", command, text);
}

/* A number from INFO. */
static inline int64_t server_info(const struct redis_process *s, const char *section, const char *name)
{
    char command[64];
    snprintf(command, sizeof command, "INFO %s", section);
    redisReply *r = server_ask(s, command);
    assert_non_null(r);
    const char *at = strstr(r->str, name);
    int64_t number = at ? atoll(at + strlen(name) + 1) : -1;
    freeReplyObject(r);
    return number;
}

/* Waits until the command returns this value. */
static inline void server_until(const struct redis_process *s, const char *command, const char *answer)
{
    char text[4096];
    for (int64_t end = steady_ms() + SERVER_WAIT_MS; steady_ms() < end; nap_ms(10)) {
        server_text(s, command, text, sizeof text);
        if (strstr(text, answer))
            return;
    }
    fail_msg("%s never says %s, but %s", command, answer, text);
}

static inline void server_start(struct redis_process *s)
{
    char port[16], log[96];
    const char *words[SERVER_WORDS * 2] = { "redis-server" };
    size_t n = 1;
    snprintf(port, sizeof port, "%d", s->port);
    snprintf(log, sizeof log, "%s/log", s->folder);
    bool file = s->more[0] && s->more[0][0] == '/'; /* the configuration file comes first: the server rewrites it */
    if (file)
        words[n++] = s->more[0];
    const char *const common[] = { "--port", port, "--bind",    "127.0.0.1", "--dir",         s->folder,
                                   "--save", "",   "--logfile", log,         "--appendfsync", "always" };
    for (size_t i = 0; i < array_count(common) && !file; i++)
        words[n++] = common[i];
    for (size_t i = file; s->more[i]; i++)
        words[n++] = s->more[i];
    s->pid = fork();
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int nowhere = open("/dev/null", O_RDWR);
        dup2(nowhere, 0);
        dup2(nowhere, 1);
        dup2(nowhere, 2);
        execvp(words[0], (char *const *)(void *)words);
        _exit(127);
    }
    server_until(s, "PING", "PONG");
}

/* more: further arguments, NULL-terminated */
static inline void server_open(struct redis_process *s, const char *const *more)
{
    (void)signal(SIGPIPE, SIG_IGN);
    *s = (struct redis_process){ .port = free_port() };
    snprintf(s->folder, sizeof s->folder, "/tmp/belfry-redis-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    for (size_t i = 0; more && more[i]; i++)
        s->more[i] = more[i];
    server_start(s);
}

static inline void server_stop(struct redis_process *s, int how)
{
    if (!s->pid)
        return;
    kill(s->pid, how);
    kill(s->pid, SIGCONT);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

static inline void server_close(struct redis_process *s)
{
    server_stop(s, SIGKILL);
    if (s->folder[0])
        (void)scratch_remove(s->folder);
}

static inline void server_url(const struct redis_process *s, const char *prefix, char out[SERVER_URL])
{
    snprintf(out, SERVER_URL, "redis://127.0.0.1:%d/0?prefix=%s", s->port, prefix);
}
