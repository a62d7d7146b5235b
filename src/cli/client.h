#pragma once
/* cli/client.h - the server as a command sees it: a call, an answer, and every way it can go wrong told once.
 *
 * One connection, kept alive. A state-changing call carries an Idempotency-Key, so that it is safe to send it again, with
 * the same key, when the connection was lost before the answer came. What fails has been said on stderr when a function
 * here returns, and the exit code is what the command ends with. */
#include "base/json/json.h"
#include "cli/cli.h"

struct client;

/* Where, and with which key, as the common options say. */
enum exit_code client_open(struct cli *cli, const struct options *o, struct client **ret) must_use;
void client_free(struct client *c); /* NULL is fine */
void client_freep(struct client **c);

/* Calls end after so long, however they are, and are not made again. */
void client_set_deadline(struct client *c, int64_t ms);

struct client_request {
    const char *method;  /* "GET" */
    const char *path;    /* "/v1/tasks?limit=20" */
    struct str body;     /* JSON, or what type says; empty: none */
    const char *type;    /* of the body; NULL: application/json */
    int64_t if_version;  /* for If-Match; 0: none */
    const char *about;   /* the task's id, to stand in front of a refusal; NULL: nothing */
    bool quiet;          /* what fails is not said: whoever asks can do without */
    bool may_be_missing; /* a 404 is an answer without a body, and nothing is said of it */
};

struct client_answer {
    int status;
    struct buf body;     /* what doc borrows from */
    struct json_doc doc; /* root NULL: an answer without a body */
};

/* EXIT_DONE: a 2xx, and *ret is the caller's to release. EXIT_REFUSED, EXIT_UNREACHABLE: said so, *ret untouched. */
enum exit_code client_call(struct client *c, const struct client_request *call, struct client_answer *ret) must_use;
void client_answer_release(struct client_answer *a);

/* One line of JSON as the server wrote it; line ends within (there are none inside strings) become blanks. */
void client_json_line(struct buf *out, struct str json);
