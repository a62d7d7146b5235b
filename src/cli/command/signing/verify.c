/* belfry verify - checks the signature of a call, a message or a notification, and says why it is not valid. */
#include "base/duration.h"
#include "base/json/jsonw.h"
#include "cli/command/commands.h"
#include "platform/file.h"
#include "port/webhook_signature.h"
#include "server/settings/options.h"

enum { BODY_MAX = 32 << 20, SECRET_MAX = 4096 };

/* clang-format off */
static const struct option options[] = {
    { .flag = "secret", .type = OPTION_TEXT, .value = "SECRET",
      .help = "the secret, whsec_…, or file:/path of a file with it; checks v1" },
    { .flag = "key", .type = OPTION_TEXT, .value = "KEY", .help = "the public key, whpk_…; checks v1a" },
    { .flag = "id", .type = OPTION_TEXT, .value = "ID", .help = "the header webhook-id" },
    { .flag = "timestamp", .type = OPTION_TEXT, .value = "SECONDS", .help = "the header webhook-timestamp" },
    { .flag = "signature", .type = OPTION_TEXT, .value = "TEXT", .help = "the header webhook-signature" },
    { .flag = "tolerance", .type = OPTION_DURATION, .value = "DURATION", .preset = "5m", .max = DURATION_MAX_MS,
      .help = "how far the timestamp may be from now" },
};
/* clang-format on */

static struct str verify_text(const struct options *o, const char *flag)
{
    return option_given(o, flag) ? option_get(o, flag)->text : (struct str){ 0 };
}

static enum err verify_read_key(const struct options *o, struct buf *ret, struct error *e)
{
    struct str secret = verify_text(o, "secret"), key = verify_text(o, "key");
    if ((secret.n > 0) == (key.n > 0))
        return error_set(e, ERR_INVALID, "give one of --secret and --key");
    if (options_read_secret(secret.n ? secret : key, secret.n ? "--secret" : "--key", ret, e))
        return e->code;
    if (secret.n && !webhook_secret_is_valid(buf_str(ret)))
        return error_field(e, "--secret", "must be whsec_ and base64 of 24 to 64 bytes");
    if (key.n && !webhook_public_key_is_valid(buf_str(ret)))
        return error_field(e, "--key", "must be whpk_ and base64 of 32 bytes");
    return ERR_OK;
}

static enum err verify_read_signed(const struct options *o, struct webhook_signed *ret, int64_t *ret_at_s,
                                   struct error *e)
{
    const struct {
        const char *flag;
        struct str *text;
    } rows[] = { { "id", &ret->id }, { "timestamp", &ret->timestamp }, { "signature", &ret->signatures } };
    for (size_t i = 0; i < array_count(rows); i++) {
        char field[32];
        snprintf(field, sizeof field, "--%s", rows[i].flag);
        *rows[i].text = verify_text(o, rows[i].flag);
        if (!rows[i].text->n)
            return error_field(e, field, "is missing: give the header webhook-%s", rows[i].flag);
    }
    if (!str_to_i64(ret->timestamp, 0, INT64_MAX / 1000, ret_at_s))
        return error_field(e, "--timestamp", "must be a number of seconds since 1970");
    return ERR_OK;
}

/* NULL: the time is near enough. */
static const char *verify_time(int64_t at_s, int64_t now_ms, int64_t tolerance_ms, char out[DURATION_TEXT])
{
    int64_t age_ms = now_ms / 1000 * 1000 - at_s * 1000;
    duration_format(age_ms < 0 ? -age_ms : age_ms, out);
    if (age_ms > tolerance_ms)
        return "in the past";
    return -age_ms > tolerance_ms ? "in the future" : NULL;
}

static enum exit_code verify_refuse(struct cli *cli, bool json, const char *reason, const char *why)
{
    cleanup_with(buf_release) struct buf out;
    struct error e;
    struct jw w;
    buf_init(&out, 4096);
    if (json) {
        jw_init(&w, &out);
        jw_object(&w);
        jw_kv_bool(&w, "valid", false);
        jw_kv_cstr(&w, "reason", reason);
        jw_object_end(&w);
        buf_char(&out, '\n');
        cli_print(cli, &out);
    }
    error_set(&e, ERR_INVALID, "%s", why);
    return cli_fail(cli, "verify", &e, EXIT_REFUSED);
}

static enum exit_code verify_judge(struct cli *cli, const struct options *o, struct str key,
                                   const struct webhook_signed *s, int64_t at_s)
{
    char age[DURATION_TEXT], why[160];
    bool json = option_get(o, "json")->number, is_secret = option_given(o, "secret");
    int64_t tolerance_ms = option_get(o, "tolerance")->number;
    switch (webhook_verify(key, s)) {
    case WEBHOOK_SIGNED: break;
    case WEBHOOK_NO_SUCH:
        return verify_refuse(cli, json, "no_signature",
                             is_secret
                                 ? "there is no signature v1, which a secret makes; a public key (--key) checks v1a"
                                 : "there is no signature v1a, which a key pair makes; a secret (--secret) checks v1");
    case WEBHOOK_OTHER_SIGNED:
        return verify_refuse(cli, json, "wrong_signature",
                             "the signature is not by this key, or the id, the timestamp or the body is another one; "
                             "the body must be byte for byte as it was received");
    }
    const char *where = verify_time(at_s, clock_wall_ms(cli->clock), tolerance_ms, age);
    if (where) {
        snprintf(why, sizeof why, "the signature is right, but the timestamp is %s %s, outside --tolerance", age,
                 where);
        return verify_refuse(cli, json, "timestamp", why);
    }
    fputs(json ? "{\"valid\":true}\n" : "valid\n", cli->out);
    return EXIT_DONE;
}

static enum exit_code command_verify_run(struct cli *cli, const struct options *o)
{
    cleanup_with(buf_release) struct buf key, body;
    struct webhook_signed s = { 0 };
    struct error e;
    int64_t at_s;
    buf_init(&key, SECRET_MAX);
    buf_init(&body, BODY_MAX);
    if (o->word_count > 1)
        (void)error_set(&e, ERR_INVALID, "takes one argument, the file with the body");
    if (o->word_count > 1 || verify_read_key(o, &key, &e) || verify_read_signed(o, &s, &at_s, &e))
        return cli_fail(cli, "verify", &e, EXIT_USAGE);
    if (file_read(o->word_count ? o->words[0].p : "-", &body, &e)) /* arguments are NUL-terminated */
        return cli_fail(cli, "verify", &e, EXIT_REFUSED);
    s.body = buf_str(&body);
    return verify_judge(cli, o, buf_str(&key), &s, at_s);
}

const struct command command_verify = {
    .name = "verify",
    .words = "[FILE]",
    .summary = "check the signature of a call or a message",
    .detail =
        "Reads the body from FILE, or from stdin. Asks no server. Exit code 0: the signature is valid; 1: it is not, and\n"
        "the reason is on stderr.\n"
        "\n"
        "Examples:\n"
        "  belfry verify --secret file:/etc/hook.secret --id \"$id\" --timestamp \"$at\" --signature \"$signature\" < body\n"
        "  belfry verify --key whpk_… --id \"$id\" --timestamp \"$at\" --signature \"$signature\" --tolerance 1h body.json\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_verify_run,
    .asks_no_server = true,
};
