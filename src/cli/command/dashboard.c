/* belfry dashboard - prints a link that logs in to the dashboard once, and opens it. */
#include <spawn.h>
#include <string.h>

#include "cli/client.h"
#include "cli/command/commands.h"

extern char **environ;

/* clang-format off */
static const struct option options[] = {
    { .flag = "open", .type = OPTION_FLAG, .help = "open the link in the browser of this desktop (xdg-open)" },
};
/* clang-format on */

static enum exit_code dashboard_open(struct cli *cli, const char *url)
{
    char program[] = "xdg-open";
    cleanup_with(free_charp) char *word = xstrdup(url);
    char *const argv[] = { program, word, NULL };
    pid_t pid;
    int failed = posix_spawnp(&pid, program, NULL, NULL, argv, environ);
    if (!failed)
        return EXIT_DONE;
    fprintf(cli->err, "belfry dashboard: cannot start xdg-open (%s); open the link in a browser yourself\n",
            strerror(failed));
    return EXIT_REFUSED;
}

static enum exit_code dashboard_show(struct cli *cli, const struct options *o, struct client_answer *answer)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, 64 * 1024);
    struct str url = json_text_at(answer->doc.root, "url");
    if (option_get(o, "json")->number) {
        client_json_line(&out, buf_str(&answer->body));
        cli_print(cli, &out);
        return EXIT_DONE;
    }
    if (!url.n) {
        fprintf(cli->err,
                "belfry dashboard: browsers may not use the server under the address of --server: run this on "
                "the machine of the server, or have api.public_url set\n");
        return EXIT_REFUSED;
    }
    buf_printf(&out, STR_FMT "\n", STR_ARG(url));
    cli_print(cli, &out);
    fprintf(cli->err, "The link logs in once, within 60 s, with the rights of this key.\n");
    buf_cut(&out, url.n);
    return option_get(o, "open")->number ? dashboard_open(cli, buf_cstr(&out)) : EXIT_DONE;
}

static enum exit_code command_dashboard_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    struct client_answer answer;
    enum exit_code code = client_open(cli, o, &client);
    if (!code)
        code = client_call(client, &(struct client_request){ .method = "POST", .path = "/v1/session/codes" }, &answer);
    if (code)
        return code;
    code = dashboard_show(cli, o, &answer);
    client_answer_release(&answer);
    return code;
}

const struct command command_dashboard = {
    .name = "dashboard",
    .words = "",
    .summary = "print a link that logs in to the dashboard",
    .detail =
        "The link works once, within 60 seconds, and logs in with the tenant and the scopes of the key of this\n"
        "command. The session ends after 12 hours, or when the key is revoked. Only the link goes to stdout.\n"
        "\n"
        "Browsers use the dashboard on the machine of the server, or over TLS: at api.public_url, if a proxy speaks\n"
        "TLS in front of the server.\n"
        "\n"
        "Examples:\n"
        "  belfry dashboard --open\n"
        "  belfry dashboard --server https://belfry.example.com --key file:/etc/belfry/operator.key\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_dashboard_run,
};
