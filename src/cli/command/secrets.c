/* belfry secrets - makes and rotates the file with the keys that encrypt secrets in the store. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/command/commands.h"
#include "cli/verbs.h"
#include "platform/key_file.h"
#include "server/settings/options.h"

/* clang-format off */
static const struct option secrets_options[] = {
    { .key = "secrets.key_file", .flag = "key-file", .type = OPTION_TEXT, .value = "FILE",
      .help = "the file; also BELFRY_SECRETS_KEY_FILE; default: secrets.key in the data directory" },
};
/* clang-format on */

static const char secrets_detail[] =
    "  init            make a key file with one key, for a cluster or a fleet: copy it to every node and worker\n"
    "  list            list the keys of the file: the first one encrypts, all decrypt\n"
    "  rotate          put a new key in front of the others: it encrypts from the next start on\n"
    "  add             put a new key behind the others: it only decrypts\n"
    "  use ID          put this key in front of the others: it encrypts from the next start on\n"
    "  forget ID       say that this key is lost: its secrets are given up, and tasks that need them fail\n"
    "\n"
    "A single node makes its file at the first start, and rotates by 'rotate' and a restart. Nodes and workers of a cluster\n"
    "must know a key before one of them encrypts with it, in this order: 'add', copy the file to all of them, restart them;\n"
    "'use ID', copy it again, restart them. The server then encrypts all secrets again with the first key. Keep an older\n"
    "key in the file as long as GET /v1/scheduler/status names it in secrets.older_keys: until then the server does not\n"
    "start without it.\n"
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

static enum err secrets_make(const char *path, struct error *e)
{
    struct secrets there;
    enum err rc = key_file_load(path, &there, e);
    explicit_bzero(&there, sizeof there);
    if (rc == ERR_NOT_FOUND)
        return key_file_make(path, e);
    return rc ? rc
              : error_set(
                    e, ERR_CONFLICT,
                    "'%s' exists already: 'belfry secrets rotate' adds a key on a single node, 'belfry secrets add' "
                    "in a cluster",
                    path);
}

static enum exit_code secrets_init(struct verb_work *w)
{
    struct error e;
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, PATH_MAX);
    secrets_path(w->o, &path);
    if (secrets_make(buf_cstr(&path), &e))
        return cli_fail(w->cli, "secrets", &e, EXIT_REFUSED);
    fprintf(w->cli->out, "%s made\n", buf_cstr(&path));
    return EXIT_DONE;
}

/* The id of the first key, or of the last one. */
static enum err secrets_id(const char *path, bool first, char out[SECRETS_ID + 1], struct error *e)
{
    struct secrets s;
    if (key_file_load(path, &s, e))
        return e->code;
    memcpy(out, s.keys[first ? 0 : s.n - 1].id, SECRETS_ID + 1);
    explicit_bzero(&s, sizeof s);
    return ERR_OK;
}

static enum exit_code secrets_change(struct verb_work *w, enum key_file_change change, const char *done)
{
    struct error e;
    char id[SECRETS_ID + 1];
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, PATH_MAX);
    secrets_path(w->o, &path);
    if (key_file_change(buf_cstr(&path), change, str_from(w->name), &e) ||
        secrets_id(buf_cstr(&path), change != KEY_FILE_ADD, id, &e))
        return cli_fail(w->cli, "secrets", &e, EXIT_REFUSED);
    fprintf(w->cli->out, "%s %s %s; restart what reads it\n", buf_cstr(&path), done,
            change == KEY_FILE_FORGET ? w->name : id);
    return EXIT_DONE;
}

static enum exit_code secrets_rotate(struct verb_work *w)
{
    return secrets_change(w, KEY_FILE_ROTATE, "has a new first key,");
}

static enum exit_code secrets_add(struct verb_work *w)
{
    return secrets_change(w, KEY_FILE_ADD, "has a new last key,");
}

static enum exit_code secrets_use(struct verb_work *w)
{
    return secrets_change(w, KEY_FILE_USE, "encrypts with key");
}

static enum exit_code secrets_forget(struct verb_work *w)
{
    return secrets_change(w, KEY_FILE_FORGET, "gives up key");
}

static enum exit_code secrets_list(struct verb_work *w)
{
    struct error e;
    struct secrets s;
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, PATH_MAX);
    secrets_path(w->o, &path);
    if (key_file_load(buf_cstr(&path), &s, &e))
        return cli_fail(w->cli, "secrets", &e, EXIT_REFUSED);
    for (size_t i = 0; i < s.n; i++)
        fprintf(w->cli->out, "%s %s\n", s.keys[i].id, i ? "decrypts" : "encrypts and decrypts");
    for (size_t i = 0; i < s.lost_count; i++)
        fprintf(w->cli->out, "%s is lost\n", s.lost[i]);
    explicit_bzero(&s, sizeof s);
    return EXIT_DONE;
}

static enum exit_code command_secrets_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = {
        { .name = "init", .run = secrets_init, .asks_no_server = true },
        { .name = "list", .run = secrets_list, .asks_no_server = true },
        { .name = "rotate", .run = secrets_rotate, .asks_no_server = true },
        { .name = "add", .run = secrets_add, .asks_no_server = true },
        { .name = "use", .word = "ID", .run = secrets_use, .asks_no_server = true },
        { .name = "forget", .word = "ID", .run = secrets_forget, .asks_no_server = true },
    };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_secrets = {
    .name = "secrets",
    .words = "init|list|rotate|add|use|forget [ID]",
    .summary = "make and rotate the keys that encrypt secrets",
    .detail = secrets_detail,
    .options = secrets_options,
    .option_count = array_count(secrets_options),
    .run = command_secrets_run,
};
