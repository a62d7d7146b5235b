#pragma once
/* cli/client.h - HTTP client of the API: sends a request, parses the answer, and prints every error.
 *
 * It keeps one connection alive. A state-changing request carries an Idempotency-Key: if the connection is lost
 * before the answer arrives, the client sends the request again with the same key. If a function here fails, it has
 * printed the error to stderr, and the command returns its exit code. */
#include <signal.h>

#include "base/json/json.h"
#include "cli/cli.h"
#include "cli/event_stream.h"

struct client;

/* Reads the server's URL and the API key from the common options. Does not connect yet. */
enum exit_code client_open(struct cli *cli, const struct options *o, struct client **ret) must_use;
void client_free(struct client *c); /* NULL is fine */
void client_freep(struct client **c);

struct cli *client_cli(const struct client *c);

/* Limits each call to ms, and turns retries off. */
void client_set_deadline(struct client *c, int64_t ms);

/* A patient client does not print that the server cannot be reached, or that it is not available (502, 503, 504): the
 * call returns EXIT_UNREACHABLE, and the command tries again. */
void client_set_patient(struct client *c, bool is_patient);
const char *client_why_unreachable(const struct client *c); /* of the latest such call: "cannot reach http://… (…)" */

struct client_request {
    const char *method;          /* "GET" */
    const char *path;            /* "/v1/tasks?limit=20" */
    struct str body;             /* empty: none */
    const char *type;            /* Content-Type of the body; NULL: application/json */
    int64_t if_version;          /* for If-Match; 0: none */
    const char *about;           /* id or name that error messages begin with; NULL: none */
    const char *idempotency_key; /* NULL: a random one */
    bool quiet;                  /* print no error: the command works without the answer */
    bool may_be_missing;         /* a 404 is success with an empty body */
};

struct client_answer {
    int status;
    struct buf body;     /* doc borrows from it */
    struct json_doc doc; /* root NULL: an answer without a body */
};

/* Whether the latest call was answered with 403: the key may not do that. */
bool client_was_forbidden(const struct client *c);

/* EXIT_DONE: the status is 2xx, and the caller releases *ret. Otherwise the error was printed, and *ret is
 * untouched. */
enum exit_code client_call(struct client *c, const struct client_request *call, struct client_answer *ret) must_use;
void client_answer_release(struct client_answer *a);

/* Reads a stream of server-sent events, until the server ends it, s->on_event returns false, or *stop is set.
 * EXIT_DONE: it has ended. EXIT_UNREACHABLE: the connection was not made, or is lost, and a patient client has printed
 * nothing. s->last_id is sent, so that the stream goes on where it was. */
enum exit_code client_stream(struct client *c, const char *path, struct event_stream *s,
                             const volatile sig_atomic_t *stop) must_use;

/* Appends JSON as one line: line ends become blanks (inside JSON strings there are none). */
void client_json_line(struct buf *out, struct str json);
