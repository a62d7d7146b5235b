#pragma once
/* cli/verbs.h - commands with verbs: belfry queue pause mail. The first argument is the verb, the second names the
 * object.
 *
 * A command has a table of verbs; a new verb is a new row. Completion takes the verbs from the command's `words`. */
#include "base/json/jsonw.h"
#include "cli/client.h"

/* Context of a running verb. */
struct verb_work {
    struct cli *cli;
    const struct options *o;
    struct client *client; /* NULL: the verb asks no server */
    const char *name;      /* the second argument; "" if the verb takes none */
    bool json;
    int status; /* of the answer of verb_call */
};

struct verb {
    const char *name;
    const char *word; /* placeholder of the second argument: "NAME", "FILE"; NULL: the verb takes none */
    bool is_name;     /* the second argument becomes part of a URL path: letters, digits and . _ : - */
    size_t more;      /* how many further arguments may follow */
    enum exit_code (*run)(struct verb_work *w);
    bool asks_no_server; /* the verb gets no client */
};

enum exit_code verbs_run(struct cli *cli, const struct options *o, const struct verb *verbs, size_t count) must_use;

/* Writes "/v1/queues/mail". */
enum { VERB_PATH = 256 };
void verb_path(const struct verb_work *w, const char *collection, char out[VERB_PATH]);

bool verb_name_is_valid(struct str name);

/* Refuses options that only other verbs of the command take (struct option, `only`). */
enum err verb_check_options(const struct options *o, const char *verb, struct error *e) must_use;

/* Prints one value a line; members that are absent, null, false or "" are left out. */
enum fact_kind { FACT_TEXT, FACT_NUMBER, FACT_MOMENT, FACT_YES };
struct named_fact {
    const char *label, *path;
    enum fact_kind kind;
};
void named_facts_print(struct cli *cli, const json_t *root, const struct named_fact *facts, size_t count,
                       struct buf *out);

/* Sends the request and prints the answer: with --json as JSON, else by `show`, or if that is NULL as "NAME done". */
enum exit_code verb_call(struct verb_work *w, const struct client_request *call,
                         void (*show)(struct verb_work *w, const struct json_doc *doc, struct buf *out),
                         const char *done) must_use;

/* "123", "1.5"; "-" if there is no number. */
void number_text(const json_t *object, const char *path, char out[32]);
