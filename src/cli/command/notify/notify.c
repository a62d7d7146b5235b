/* belfry notify - settings of notifications, incidents, and what was sent. */
#include "cli/command/notify/notify.h"

#include "base/duration.h"
#include "cli/command/commands.h"

#define BOTH "add|edit"

/* clang-format off */
static const struct option options[] = {
    { .flag = "on", .type = OPTION_TEXT, .value = "LIST", .only = BOTH,
      .help = "what is told: success, failure, retry, missed, dead_letter, recovered, alert, separated by commas; add without it: failure,recovered" },
    { .flag = "webhook", .type = OPTION_TEXT, .value = "URL", .only = BOTH, .help = "call this URL" },
    { .flag = "secret", .type = OPTION_TEXT, .value = "SECRET", .only = BOTH,
      .help = "of a webhook: sign with this secret, whsec_ and base64 of 24 to 64 bytes; '' removes it" },
    { .flag = "signing-key", .type = OPTION_TEXT, .value = "ID", .only = BOTH,
      .help = "of a webhook: sign with this signing key, by its id or its name; '' removes it" },
    { .flag = "slack", .type = OPTION_TEXT, .value = "URL", .only = BOTH, .help = "call this incoming webhook of Slack" },
    { .flag = "push", .type = OPTION_TEXT, .value = "URL", .only = BOTH,
      .help = "call this ntfy server, with the topic as its path: https://ntfy.example.com/ops" },
    { .flag = "token", .type = OPTION_TEXT, .value = "TOKEN", .only = BOTH, .help = "of --push: bearer token; '' removes it" },
    { .flag = "priority", .type = OPTION_INT, .value = "N", .min = 1, .max = 5, .only = BOTH, .help = "of --push: the priority of its messages" },
    { .flag = "email", .type = OPTION_TEXT, .value = "LIST", .only = BOTH, .help = "mail to these addresses, separated by commas" },
    { .flag = "queue", .type = OPTION_TEXT, .value = "QUEUE", .only = BOTH, .help = "only tasks of this queue; mail* for all that begin so; '' for any" },
    { .flag = "task-type", .type = OPTION_TEXT, .value = "TYPE", .only = BOTH, .help = "only tasks of this type, likewise" },
    { .flag = "name", .type = OPTION_TEXT, .value = "NAME", .only = BOTH, .help = "only tasks of this name, likewise" },
    { .flag = "mode", .type = OPTION_CHOICE, .value = "MODE", .choices = "changes|every", .only = BOTH,
      .help = "tell that something fails and has recovered, or tell of everything, in groups; default: changes" },
    { .flag = "after", .type = OPTION_INT, .value = "N", .min = 1, .max = 100, .only = BOTH, .help = "tell after N failures in a row; default: 1" },
    { .flag = "wait", .type = OPTION_DURATION, .value = "DURATION", .max = 3600000, .only = BOTH,
      .help = "from the first happening to the message; default: 10s" },
    { .flag = "window", .type = OPTION_DURATION, .value = "DURATION", .min = 1000, .max = 86400000, .only = BOTH,
      .help = "an incident without recurring tasks ends when nothing happened for so long; default: 5m" },
    { .flag = "repeat-every", .type = OPTION_DURATION, .value = "DURATION", .min = 60000, .max = 2592000000, .only = BOTH,
      .help = "tell again while nobody acknowledges it; default: 4h" },
    { .flag = "max-per-hour", .type = OPTION_INT, .value = "N", .min = 1, .max = 3600, .only = BOTH, .help = "at most so many messages an hour; default: 60" },
    { .flag = "step", .type = OPTION_LIST, .value = "STEP", .only = BOTH,
      .help = "tell another channel, so long after the first message, until somebody acknowledges: '15m slack URL', '1h email LIST', '30m push URL TOKEN', "
              "'30m webhook URL SECRET'; edit replaces all steps, and --step '' removes them" },
    { .flag = "set", .type = OPTION_LIST, .value = "MEMBER=JSON", .only = BOTH,
      .help = "any member of a setting, as the API has it, such as on_missed=true or 'steps=[]'" },
    { .flag = "rename", .type = OPTION_TEXT, .value = "NAME", .only = "edit", .help = "its new name" },
    { .flag = "enable", .type = OPTION_FLAG, .only = "edit", .help = "tell from now on" },
    { .flag = "disable", .type = OPTION_FLAG, .only = "edit", .help = "tell nothing, and close its incidents" },
    { .flag = "for", .type = OPTION_DURATION, .value = "DURATION", .min = 1000, .max = DURATION_MAX_MS, .only = "mute",
      .help = "for this duration; default: 1h" },
    { .flag = "until", .type = OPTION_TIME, .value = "TIME", .only = "mute", .help = "until this time" },
    { .flag = "all", .type = OPTION_FLAG, .only = "incidents", .help = "closed ones, too" },
    { .flag = "user", .type = OPTION_TEXT, .value = "ID", .only = "add|edit|list", .help = "whose setting it is; list: only settings of this user" },
};
/* clang-format on */

static const char detail[] =
    "  list            list the settings\n"
    "  add NAME        add a setting; give one of --webhook, --slack, --push and --email\n"
    "  show ID         show a setting, an incident or a message\n"
    "  edit ID         change a setting: only what is given\n"
    "  remove ID       remove a setting\n"
    "  test ID         send a test message of a setting, and print what became of it\n"
    "  mute ID         mute a setting or an incident for a time; what is still open then is told\n"
    "  unmute ID       end that\n"
    "  incidents       list open incidents, newest first\n"
    "  ack ID          acknowledge an incident: it is not repeated any more\n"
    "  checks          list the tasks that are expected to succeed in time, newest first\n"
    "  sent            list what was sent, newest first\n"
    "  resend ID       send a message again\n"
    "\n"
    "A setting is named by its id, the beginning of its id, or its name; incidents and messages by their id.\n"
    "\n"
    "Examples:\n"
    "  belfry notify list\n"
    "  belfry notify add ops --webhook https://hooks.example.com/belfry\n"
    "  belfry notify add mails --queue 'mail*' --on failure,dead_letter --slack https://hooks.slack.com/services/…\n"
    "  belfry notify add pager --push https://ntfy.example.com/ops --step '15m email boss@example.com'\n"
    "  belfry notify show ops\n"
    "  belfry notify edit ops --on failure,missed,recovered --after 3 --repeat-every 1h\n"
    "  belfry notify edit ops --step '15m slack https://hooks.slack.com/services/…' --step '1h email boss@example.com'\n"
    "  belfry notify edit ops --disable\n"
    "  belfry notify remove ops\n"
    "  belfry notify test ops\n"
    "  belfry notify mute ops --for 2h\n"
    "  belfry notify mute 019cb323-e500-7111-827d-7345cc1bc385 --until 2026-02-10T08:00:00Z\n"
    "  belfry notify unmute ops\n"
    "  belfry notify incidents --all\n"
    "  belfry notify ack 019cb323-e500-7111-827d-7345cc1bc385\n"
    "  belfry notify checks\n"
    "  belfry notify sent\n"
    "  belfry notify resend 019cb323-e500-7111-827d-7345cc1bc385\n";

static enum exit_code command_notify_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = {
        { "list", NULL, false, 0, notify_list },           { "add", "NAME", false, 0, notify_add },
        { "show", "ID", false, 0, notify_show },           { "edit", "ID", false, 0, notify_edit },
        { "remove", "ID", false, 0, notify_remove },       { "test", "ID", false, 0, notify_test },
        { "mute", "ID", false, 0, notify_mute },           { "unmute", "ID", false, 0, notify_unmute },
        { "incidents", NULL, false, 0, notify_incidents }, { "ack", "ID", true, 0, notify_ack },
        { "checks", NULL, false, 0, notify_checks },       { "sent", NULL, false, 0, notify_sent },
        { "resend", "ID", true, 0, notify_resend },
    };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_notify = {
    .name = "notify",
    .words = "list|add|show|edit|remove|test|mute|unmute|incidents|ack|checks|sent|resend [NAME|ID]",
    .summary = "be told of failures, and see what was told",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_notify_run,
};
