/* Each row of the table says where names come from, for the argument of a command (after a verb) or for the value of
 * an option. */
#include "cli/command/completion.h"

#include <unistd.h>

#include "base/uuid.h"
#include "cli/client.h"
#include "cli/command/commands.h"
#include "cli/filter.h"
#include "cli/verbs.h"
#include "server/settings/options.h"

enum { DEADLINE_MS = 200, ARGUMENTS_MAX = 16, PATH_BYTES = 4096 };

#define RECENT "?limit=100"
#define TASKS  "/v1/tasks" RECENT

/* Tasks are completed by name and by id. NAMED: any task; the server finds the names in its index, however many tasks
 * there are. LISTED: those of the list alone, because the command takes no others. */
enum completion_by { COMPLETION_PLAIN, COMPLETION_NAMED, COMPLETION_LISTED };

static const struct completion_source {
    const char *command; /* NULL: any */
    const char *verbs;   /* "show|set": the name follows one of them; NULL: the command has no verbs */
    const char *flag;    /* "queue": the name is the value of this option */
    const char *path, *member;
    const char *name, *what; /* members of an item: the candidate and its description */
    enum completion_by by;
} sources[] = {
    { .flag = "queue", .path = "/v1/queues", .member = "queues", .name = "name" },
    { .flag = "calendar", .path = "/v1/calendars", .member = "calendars", .name = "name" },
    { .flag = "workflow", .path = "/v1/workflow-definitions" RECENT, .member = "definitions", .name = "name" },
    { .flag = "tenant", .path = "/v1/tenants", .member = "tenants", .name = "name" },
    { "queue", "show|set|pause|resume|rm", NULL, "/v1/queues", "queues", "name", NULL, COMPLETION_PLAIN },
    { "calendar", "show|set|rm", NULL, "/v1/calendars", "calendars", "name", NULL, COMPLETION_PLAIN },
    { "tenant", "show|set|disable|enable", NULL, "/v1/tenants", "tenants", "name", NULL, COMPLETION_PLAIN },
    { "key", "revoke", NULL, "/v1/api-keys", "keys", "id", "name", COMPLETION_PLAIN },
    { "breakers", "close", NULL, "/v1/breakers", "breakers", "host", "state", COMPLETION_PLAIN },
    { "notify", "remove|test|show|edit|unmute", NULL, "/v1/notification-settings", "notification_settings", "id",
      "name", COMPLETION_PLAIN },
    { "notify", "ack|mute", NULL, "/v1/incidents?state=OPEN", "incidents", "id", "kind", COMPLETION_PLAIN },
    { "notify", "resend", NULL, "/v1/notifications" RECENT, "notifications", "id", "type", COMPLETION_PLAIN },
    { .flag = "signing-key", .path = "/v1/signing-keys", .member = "signing_keys", .name = "id", .what = "name" },
    { "signing-keys", "show|rotate|remove", NULL, "/v1/signing-keys", "signing_keys", "id", "name", COMPLETION_PLAIN },
    { "workflow", "show|signal|cancel|pause|resume|retry|rerun|steps", NULL, "/v1/workflows" RECENT, "workflows", "id",
      "name", COMPLETION_PLAIN },
    { "workflow", "run|graph|rm", NULL, "/v1/workflow-definitions" RECENT, "definitions", "name", NULL,
      COMPLETION_PLAIN },
    { "job", "show|cancel", NULL, "/v1/jobs" RECENT, "jobs", "id", "kind", COMPLETION_PLAIN },
    { "dlq", "show|retry|archive", NULL, "/v1/dlq" RECENT, "tasks", "id", "name", COMPLETION_LISTED },
    { "retry", NULL, NULL, "/v1/dlq" RECENT, "tasks", "id", "name", COMPLETION_LISTED },
    { "resume", NULL, NULL, TASKS "&status=PAUSED", "tasks", "id", "name", COMPLETION_LISTED },
    { "show", NULL, NULL, TASKS, "tasks", "id", "name", COMPLETION_NAMED },
    { "edit", NULL, NULL, TASKS, "tasks", "id", "name", COMPLETION_NAMED },
    { "pause", NULL, NULL, TASKS "&status=SCHEDULED", "tasks", "id", "name", COMPLETION_NAMED },
    { "cancel", NULL, NULL, TASKS, "tasks", "id", "name", COMPLETION_NAMED },
    { "rm", NULL, NULL, TASKS, "tasks", "id", "name", COMPLETION_NAMED },
    { "run", NULL, NULL, TASKS, "tasks", "id", "name", COMPLETION_NAMED },
    { "history", NULL, NULL, TASKS, "tasks", "id", "name", COMPLETION_NAMED },
    { "explain", NULL, NULL, TASKS, "tasks", "id", "name", COMPLETION_NAMED },
    { "deps", NULL, NULL, TASKS, "tasks", "id", "name", COMPLETION_NAMED },
    { "upcoming", NULL, NULL, TASKS, "tasks", "id", "name", COMPLETION_NAMED },
};

static bool completion_is_one_of(struct str word, const char *alternatives)
{
    struct str rest = str_from(alternatives), choice;
    while (str_cut(&rest, '|', &choice))
        if (str_eq(word, choice))
            return true;
    return false;
}

static const struct completion_source *completion_find_source(const struct str *words, size_t count, const char *flag)
{
    for (size_t i = 0; i < array_count(sources); i++) {
        const struct completion_source *s = &sources[i];
        if (flag ? s->flag && strcmp(s->flag, flag) == 0
                 : s->command && str_eq(words[0], str_from(s->command)) &&
                       (!s->verbs || (count > 2 && completion_is_one_of(words[1], s->verbs))))
            return s;
    }
    return NULL;
}

/* Reads --server, --key and --data-dir of the typed line, which may be incomplete. */
static bool completion_read_client_options(struct options *o, const struct str *words, size_t count, struct error *e)
{
    static const char *const flags[] = { "--server", "--key", "--data-dir" };
    char *arguments[ARGUMENTS_MAX];
    size_t n = 0;
    for (size_t i = 1; i + 2 < count; i++) {
        for (size_t k = 0; k < array_count(flags) && n + 2 <= ARGUMENTS_MAX; k++) {
            if (!str_eq(words[i], str_from(flags[k])))
                continue;
            memcpy(&arguments[n++], &words[i].p, sizeof words[i].p); /* argv of main is not const */
            memcpy(&arguments[n++], &words[i + 1].p, sizeof words[i].p);
        }
    }
    return !options_parse_flags(o, (int)n, arguments, e) && !options_parse_env(o, options_getenv, e);
}

/* Offers a name that a shell takes as one word without quotes. */
static void completion_offer_name(struct str name, struct str what, const struct completion_callback *to)
{
    if (verb_name_is_valid(name))
        to->offer(to->context, name, what);
}

static void completion_offer_items(const struct client_answer *a, const struct completion_source *s,
                                   const struct completion_callback *to)
{
    size_t i;
    const json_t *item;
    json_array_foreach (json_at(a->doc.root, s->member), i, item) {
        struct str name = json_text_at(item, s->name), what = s->what ? json_text_at(item, s->what) : S("");
        if (s->by == COMPLETION_LISTED)
            completion_offer_name(what, name, to);
        if (name.n)
            to->offer(to->context, name, what);
    }
}

/* Offers the names of single tasks that begin with the typed text. */
static void completion_offer_task_names(struct client *client, struct str typed, const struct completion_callback *to)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, PATH_BYTES);
    buf_text(&path, "/v1/tasks/names" RECENT);
    if (typed.n)
        query_add(&path, "prefix", typed);
    if (client_call(client, &(struct client_request){ .method = "GET", .path = buf_cstr(&path) }, &a))
        return;
    size_t i;
    const json_t *item;
    json_array_foreach (json_at(a.doc.root, "names"), i, item)
        if (json_is_true(json_at(item, "only")))
            completion_offer_name(json_text_at(item, "name"), json_text_at(item, "task_id"), to);
}

static void completion_query(struct cli *cli, const struct options *o, const struct completion_source *s,
                             struct str typed, const struct completion_callback *to)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(buf_release) struct buf path;
    struct uuid lowest, highest;
    bool is_id = uuid_parse_prefix(typed, &lowest, &highest), is_task = s->by != COMPLETION_PLAIN;
    buf_init(&path, PATH_BYTES);
    buf_text(&path, s->path);
    if (is_task && is_id)
        query_add(&path, "id", typed);
    if (client_open(cli, o, &client))
        return;
    client_set_deadline(client, DEADLINE_MS);
    if (s->by == COMPLETION_NAMED)
        completion_offer_task_names(client, typed, to);
    if (s->by == COMPLETION_NAMED && typed.n && !is_id)
        return; /* no id begins so */
    if (!client_call(client, &(struct client_request){ .method = "GET", .path = buf_cstr(&path) }, &a))
        completion_offer_items(&a, s, to);
}

void completion_names(struct cli *cli, const struct str *words, size_t count, const char *flag,
                      const struct completion_callback *to)
{
    const struct completion_source *s = completion_find_source(words, count, flag);
    FILE *nowhere = s ? fopen("/dev/null", "we") : NULL;
    if (!nowhere)
        return;
    struct options o;
    struct error e;
    struct cli silent = *cli;
    silent.err = nowhere; /* errors must not disturb the line that is being typed */
    options_init(&o, common_options, common_option_count);
    if (completion_read_client_options(&o, words, count, &e))
        completion_query(&silent, &o, s, words[count - 1], to);
    options_release(&o);
    fclose(nowhere);
}
