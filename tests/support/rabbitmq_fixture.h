#pragma once
/* tests/support/rabbitmq_fixture.h - unique names on the server in BELFRY_TEST_RABBITMQ: see with-rabbitmq. */
#include <sys/wait.h>

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "events/amqp/events_amqp.h"
#include "queue/amqp/queue_amqp.h"

enum { RABBITMQ_URL = 512 };

static inline const char *rabbitmq_server(void)
{
    const char *url = getenv("BELFRY_TEST_RABBITMQ");
    if (!url) {
        fprintf(stderr, "BELFRY_TEST_RABBITMQ names no server: run this by tests/support/with-rabbitmq\n");
        exit(2);
    }
    return url;
}

/* more: further URL parameters, such as "&queues=classic", or empty. */
static inline const char *rabbitmq_url(char out[RABBITMQ_URL], const char *prefix, const char *more)
{
    snprintf(out, RABBITMQ_URL, "%s?prefix=%s%s", rabbitmq_server(), prefix, more);
    return out;
}

static inline struct queue *rabbitmq_queue(const char *prefix, const char *more, const struct queue_names *names)
{
    char url[RABBITMQ_URL];
    struct queue *q = NULL;
    struct error e = { 0 };
    assert_ok(queue_amqp_open(str_from(rabbitmq_url(url, prefix, more)), names, &q, &e), &e);
    return q;
}

static inline struct events *rabbitmq_events(const char *prefix)
{
    char url[RABBITMQ_URL];
    struct events *ev = NULL;
    struct error e = { 0 };
    assert_ok(events_amqp_open(str_from(rabbitmq_url(url, prefix, "")), &ev, &e), &e);
    return ev;
}

/* Controls the server: runs a verb of rabbitmq.py with one argument (NULL: none) and stores its output in `out`. */
static inline void rabbitmq_run(const char *verb, const char *word, char *out, size_t size)
{
    char command[1024], *words[16], *rest = command;
    size_t n = 0;
    int ends[2], status = 0;
    pid_t pid;
    posix_spawn_file_actions_t to_pipe;
    snprintf(command, sizeof command, "%s %s%s%s", getenv("BELFRY_TEST_RABBITMQ_DO"), verb, word ? " " : "",
             word ? word : "");
    while (n < array_count(words) - 1 && (words[n] = strsep(&rest, " ")))
        n++;
    words[n] = NULL;
    assert_int_equal(pipe(ends), 0);
    posix_spawn_file_actions_init(&to_pipe);
    posix_spawn_file_actions_adddup2(&to_pipe, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&to_pipe, ends[0]);
    assert_int_equal(posix_spawnp(&pid, words[0], &to_pipe, NULL, words, environ), 0);
    posix_spawn_file_actions_destroy(&to_pipe);
    close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    ssize_t got = size ? read(ends[0], out, size - 1) : 0; /* short enough to fit in a pipe */
    close(ends[0]);
    if (size)
        out[got > 0 ? got : 0] = '\0';
    if (status)
        fail_msg("%s failed", verb);
}

static inline void rabbitmq_do(const char *verb)
{
    rabbitmq_run(verb, NULL, NULL, 0);
}

/* Number of messages in a queue; -1: no such queue. */
static inline long rabbitmq_messages(const char *queue)
{
    char line[64];
    rabbitmq_run("messages", queue, line, sizeof line);
    return strcmp(line, "None\n") == 0 ? -1 : atol(line);
}
