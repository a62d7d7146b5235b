/* belfry secrets - makes and rotates the file with the keys that encrypt secrets in the store. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/command/commands.h"
#include "cli/verbs.h"
#include "platform/key_file.h"
#include "server/options.h"

/* clang-format off */
static const struct option secrets_options[] = {
    { .key = "secrets.key_file", .flag = "key-file", .type = OPTION_TEXT, .value = "FILE",
      .help = "the file; also BELFRY_SECRETS_KEY_FILE; default: secrets.key in the data directory" },
};
/* clang-format on */

static const char secrets_detail[] =
    "  init            make a key file with one key, for a cluster or a fleet: copy it to every node and worker\n"
    "  rotate          put a new key in front of the others: it encrypts what is written from now on\n"
    "\n"
    "A single node makes its file at the first start. After a rotate, copy the file to every node and worker, and\n"
    "restart them, workers first. Keep the older keys in the file: what they encrypted is not encrypted again.\n"
    "\n"
    "Examples:\n"
    "  belfry secrets init --key-file /etc/belfry/secrets.key\n"
    "  belfry secrets rotate\n";

static void secrets_path(const struct options *o, struct buf *out)
{
    if (option_given(o, "key-file")) {
        buf_add(out, option_get(o, "key-file")->text);
        return;
    }
    options_data_dir(o, out);
    buf_text(out, "/" KEY_FILE_NAME);
}

static enum exit_code secrets_change(struct verb_work *w, enum err (*change)(const char *path, struct error *e),
                                     const char *done)
{
    struct error e;
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, PATH_MAX);
    secrets_path(w->o, &path);
    if (change(buf_cstr(&path), &e))
        return cli_fail(w->cli, "secrets", &e, EXIT_REFUSED);
    fprintf(w->cli->out, "%s %s\n", buf_cstr(&path), done);
    return EXIT_DONE;
}

static enum err secrets_make(const char *path, struct error *e)
{
    struct secrets there;
    enum err rc = key_file_load(path, &there, e);
    explicit_bzero(&there, sizeof there);
    if (rc == ERR_NOT_FOUND)
        return key_file_make(path, e);
    return rc ? rc : error_set(e, ERR_CONFLICT, "'%s' exists already: 'belfry secrets rotate' adds a key", path);
}

static enum exit_code secrets_init(struct verb_work *w)
{
    return secrets_change(w, secrets_make, "made");
}

static enum exit_code secrets_rotate(struct verb_work *w)
{
    return secrets_change(w, key_file_add, "has a new first key; restart what reads it");
}

static enum exit_code command_secrets_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = {
        { .name = "init", .run = secrets_init, .asks_no_server = true },
        { .name = "rotate", .run = secrets_rotate, .asks_no_server = true },
    };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_secrets = {
    .name = "secrets",
    .words = "init|rotate",
    .summary = "make and rotate the keys that encrypt secrets",
    .detail = secrets_detail,
    .options = secrets_options,
    .option_count = array_count(secrets_options),
    .run = command_secrets_run,
};
