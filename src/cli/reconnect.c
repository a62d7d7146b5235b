#include "cli/reconnect.h"

#include <stdio.h>

void reconnect_init(struct reconnect *r, struct client *c)
{
    *r = (struct reconnect){ .client = c };
    client_set_patient(c, true);
}

static void reconnect_say(const struct reconnect *r, const char *why, const char *then)
{
    struct error e;
    struct cli *cli = client_cli(r->client);
    error_set(&e, ERR_UNAVAILABLE, "%s%s", why, then);
    cli_fail(cli, cli->command->name, &e, EXIT_UNREACHABLE);
}

static void reconnect_say_lost(const struct reconnect *r)
{
    char then[48];
    snprintf(then, sizeof then, "; trying again for %d minutes", RECONNECT_MINUTES);
    reconnect_say(r, client_why_unreachable(r->client), then);
}

bool reconnect_again(struct reconnect *r, enum exit_code code, bool says)
{
    const int64_t limit_ns = RECONNECT_MINUTES * 60 * INT64_C(1000000000);
    bool is_lost = code == EXIT_UNREACHABLE, was_lost = r->lost_ns != 0;
    int64_t now_ns = clock_steady_ns(client_cli(r->client)->clock);
    if (is_lost && !was_lost)
        r->lost_ns = now_ns;
    if (is_lost && !was_lost && says)
        reconnect_say_lost(r);
    if (!is_lost && was_lost && says)
        reconnect_say(r, "the server answers again", "");
    if (!is_lost)
        r->lost_ns = 0;
    return is_lost && now_ns - r->lost_ns < limit_ns;
}

enum exit_code reconnect_fail(const struct reconnect *r)
{
    reconnect_say(r, client_why_unreachable(r->client), "");
    return EXIT_UNREACHABLE;
}
