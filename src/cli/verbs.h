#pragma once
/* cli/verbs.h - commands about named things: belfry queue pause mail. The first word says what to do, the next ones with what.
 *
 * A command has a table of verbs; a row is all that a new one takes. Completion offers them from the command's `words`. */
#include "base/json/jsonw.h"
#include "cli/client.h"

/* One command at work. */
struct verb_work {
    struct cli *cli;
    const struct options *o;
    struct client *client;
    const char *name; /* the second word; "" if the verb takes none */
    bool json;
};

struct verb {
    const char *name;
    const char *word; /* what the second word is called: "NAME", "FILE"; NULL: there is none */
    bool is_name;     /* and is part of a path: letters, digits and . _ : - */
    bool takes_more;  /* a third word may follow */
    enum exit_code (*run)(struct verb_work *w);
};

enum exit_code verbs_run(struct cli *cli, const struct options *o, const struct verb *verbs, size_t count) must_use;

/* "/v1/queues/mail". */
enum { VERB_PATH = 256 };
void verb_path(const struct verb_work *w, const char *collection, char out[VERB_PATH]);

bool verb_name_is_valid(struct str name);

/* One fact a line: what is absent, null, false or "" is left out. */
enum fact_kind { FACT_TEXT, FACT_NUMBER, FACT_MOMENT, FACT_YES };
struct named_fact {
    const char *label, *path;
    enum fact_kind kind;
};
void named_facts_print(struct cli *cli, const json_t *root, const struct named_fact *facts, size_t count,
                       struct buf *out);

/* Calls, and prints the answer: as JSON, or by `show` (may be NULL: then `done`, "mail paused"). */
enum exit_code verb_call(struct verb_work *w, const struct client_request *call,
                         void (*show)(struct verb_work *w, const struct json_doc *doc, struct buf *out),
                         const char *done) must_use;

/* "123", "1.5"; "-" where there is no number. */
void number_text(const json_t *object, const char *path, char out[32]);
