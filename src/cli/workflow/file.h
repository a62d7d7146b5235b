#pragma once
/* cli/workflow/file.h - a definition of a workflow in a file: JSON or YAML, checked without a server.
 *
 * The text has each value on its line in the file, also if the file is YAML (cli/yaml.h): the line of an error is found
 * by the error's path. */
#include "cli/cli.h"
#include "core/flow/dag.h"

struct workflow_file {
    const char *name; /* as given; "-" is stdin */
    struct buf text;  /* JSON */
    struct dag *dag;
};

/* Whether the argument is a file: "-", or it has a '/', or it ends in .json, .yaml or .yml. Otherwise it is the name of a
 * definition, or the id of a run. */
bool workflow_file_is_named(struct str word);

/* Reads and checks the file. If it is wrong, prints where and why ("deploy.yaml:12: steps[3].depends_on[0]: …") to stderr. */
enum exit_code workflow_file_open(struct cli *cli, const char *name, struct workflow_file *ret) must_use;
void workflow_file_release(struct workflow_file *f);

/* Prints a note to stderr for each secret header that is ***, which only a server can judge. */
void workflow_file_note_hidden(struct cli *cli, const struct workflow_file *f);

/* The definition without blanks and line ends outside of texts: what is sent. The layout of a file makes no new
 * version. */
void workflow_file_compact(const struct workflow_file *f, struct buf *out);

/* The name that a file gives to its definition: "etc/deploy.yaml" is deploy. Empty: none, as of stdin. */
struct str workflow_file_stem(const char *name);
