#include "cli/verbs.h"

#include "base/sentence.h"
#include "cli/table.h"
#include "cli/task_view.h"

enum { OUT_MAX = 16 << 20, NAME_MAX_BYTES = 100 };

/* ---- dispatch ---- */

static const struct verb *verb_find(const struct verb *verbs, size_t count, struct str word)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(word, str_from(verbs[i].name)))
            return &verbs[i];
    return NULL;
}

static enum err verb_fail_unknown(const struct verb *verbs, size_t count, struct str word, struct error *e)
{
    struct suggest s;
    cleanup_with(buf_release) struct buf names;
    char quoted[QUOTE_TEXT];
    buf_init(&names, 512);
    suggest_init(&s, word);
    for (size_t i = 0; i < count; i++) {
        suggest_offer(&s, str_from(verbs[i].name));
        buf_printf(&names, "%s%s", i == 0 ? "" : i + 1 == count ? " or " : ", ", verbs[i].name);
    }
    quote_text(word, quoted);
    if (!word.n)
        return error_set(e, ERR_INVALID, "a verb is missing: use %s", buf_cstr(&names));
    if (s.closest.p)
        return error_set(e, ERR_INVALID, "has no verb %s; did you mean '" STR_FMT "'?", quoted, STR_ARG(s.closest));
    return error_set(e, ERR_INVALID, "has no verb %s; use %s", quoted, buf_cstr(&names));
}

bool verb_name_is_valid(struct str name)
{
    return name.n <= NAME_MAX_BYTES && str_is_plain(name, "._:-");
}

enum err verb_check_options(const struct options *o, const char *verb, struct error *e)
{
    for (size_t i = 0; i < o->count; i++) {
        struct str rest = o->rows[i].only ? str_from(o->rows[i].only) : S(""), name;
        bool taken = !o->rows[i].only || o->values[i].source <= FROM_PRESET;
        cleanup_with(buf_release) struct buf others;
        buf_init(&others, 256);
        while (!taken && str_cut(&rest, '|', &name)) {
            taken = str_eq(name, str_from(verb));
            buf_printf(&others, "%s" STR_FMT, others.n ? " and " : "", STR_ARG(name));
        }
        char field[64];
        snprintf(field, sizeof field, "--%s", o->rows[i].flag);
        if (!taken)
            return error_field(e, field, "is for %s, not for %s", buf_cstr(&others), verb);
    }
    return ERR_OK;
}

static enum err verb_check_words(const struct verb *v, const struct options *o, struct error *e)
{
    size_t wanted = v->word ? 2 : 1;
    char quoted[QUOTE_TEXT];
    if (v->word && o->word_count < wanted)
        return error_set(e, ERR_INVALID, "%s needs %s %s", v->name, strchr("AEIO", v->word[0]) ? "an" : "a", v->word);
    if (o->word_count > wanted + v->more) {
        quote_text(o->words[wanted + v->more], quoted);
        return error_set(e, ERR_INVALID, "%s takes no further arguments, but got %s", v->name, quoted);
    }
    if (v->is_name && !verb_name_is_valid(o->words[1])) {
        quote_text(o->words[1], quoted);
        return error_set(e, ERR_INVALID, "%s is not a valid name: use 1 to %d letters, digits and . _ : -", quoted,
                         NAME_MAX_BYTES);
    }
    return ERR_OK;
}

enum exit_code verbs_run(struct cli *cli, const struct options *o, const struct verb *verbs, size_t count)
{
    cleanup_with(client_freep) struct client *client = NULL;
    struct error e;
    struct str word = o->word_count ? o->words[0] : S("");
    const struct verb *v = verb_find(verbs, count, word);
    if (!v)
        (void)verb_fail_unknown(verbs, count, word, &e);
    if (!v || verb_check_words(v, o, &e) || verb_check_options(o, v->name, &e))
        return cli_fail(cli, cli->command->name, &e, EXIT_USAGE);
    enum exit_code code = v->asks_no_server ? EXIT_DONE : client_open(cli, o, &client);
    struct verb_work w = { .cli = cli,
                           .o = o,
                           .client = client,
                           .name = v->word ? o->words[1].p : "", /* arguments are NUL-terminated */
                           .json = option_get(o, "json")->number };
    return code ? code : v->run(&w);
}

void verb_path(const struct verb_work *w, const char *collection, char out[VERB_PATH])
{
    snprintf(out, VERB_PATH, "%s/%s", collection, w->name);
}

/* ---- output ---- */

void number_text(const json_t *object, const char *path, char out[32])
{
    const json_t *v = json_at(object, path);
    if (json_is_integer(v))
        snprintf(out, 32, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, 32, "%g", json_real_value(v));
    else
        snprintf(out, 32, "-");
}

static void named_fact_write(const struct named_fact *f, const json_t *root, int64_t now_ms, struct buf *out)
{
    char text[CELL_TEXT] = "";
    int64_t ms;
    switch (f->kind) {
    case FACT_TEXT: table_plain_text(json_text_at(root, f->path), SIZE_MAX, out); break;
    case FACT_YES: buf_text(out, json_is_true(json_at(root, f->path)) ? "yes" : ""); break;
    case FACT_NUMBER:
        number_text(root, f->path, text);
        buf_text(out, strcmp(text, "-") == 0 ? "" : text);
        break;
    case FACT_MOMENT:
        moment_text(root, f->path, now_ms, text);
        buf_text(out, json_time_at(root, f->path, &ms) ? text : "");
        break;
    }
}

void named_facts_print(struct cli *cli, const json_t *root, const struct named_fact *facts, size_t count,
                       struct buf *out)
{
    cleanup_with(table_release) struct table t;
    table_init(&t, 2);
    for (size_t i = 0; i < count; i++) {
        cleanup_with(buf_release) struct buf text;
        buf_init(&text, OUT_MAX);
        named_fact_write(&facts[i], root, clock_wall_ms(cli->clock), &text);
        if (text.n)
            table_row(&t, 2, facts[i].label, buf_cstr(&text));
    }
    table_print(&t, out);
}

enum exit_code verb_call(struct verb_work *w, const struct client_request *call,
                         void (*show)(struct verb_work *w, const struct json_doc *doc, struct buf *out),
                         const char *done)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    enum exit_code code = client_call(w->client, call, &a);
    if (code)
        return code;
    w->status = a.status;
    if (w->json && a.doc.root)
        client_json_line(&out, buf_str(&a.body));
    else if (w->json)
        buf_printf(&out, "{\"name\":\"%s\",\"removed\":true}\n", w->name);
    else if (show)
        show(w, &a.doc, &out);
    else
        buf_printf(&out, "%s %s\n", w->name, done);
    cli_print(w->cli, &out);
    return EXIT_DONE;
}
