#include "cli/task_answer.h"

#include <stdio.h>

#include "cli/client.h"
#include "cli/ids.h"

enum { OUT_MAX = 16 << 20, PATH_BYTES = 128 };

enum exit_code task_answer_print(struct cli *cli, const struct options *o, const char *what,
                                 void (*write)(struct cli *cli, const json_t *answer, struct buf *out))
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(ids_release) struct ids ids = { 0 };
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    struct error e;
    char path[PATH_BYTES];
    if (ids_check_one(o, &e))
        return cli_fail(cli, cli->command->name, &e, EXIT_USAGE);
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE)
        code = ids_resolve(client, o, "/v1/tasks", &ids);
    if (code)
        return code;
    snprintf(path, sizeof path, "/v1/tasks/%s/%s", ids.v[0], what);
    code = client_call(client, &(struct client_request){ .method = "GET", .path = path, .about = ids.v[0] }, &a);
    if (code)
        return code;
    if (option_get(o, "json")->number)
        client_json_line(&out, buf_str(&a.body));
    else
        write(cli, a.doc.root, &out);
    cli_print(cli, &out);
    return EXIT_DONE;
}
