#include "server/brokers.h"

#include <stdio.h>

#include "server/settings/options.h"
#include "server/settings/secret_url.h"

enum { URL_MAX = 4096, SETTING_TEXT = 96 };

static enum message_target_broker brokers_kind(struct str url)
{
    return str_starts(url, S("redis"))  ? MESSAGE_TARGET_REDIS
           : str_starts(url, S("amqp")) ? MESSAGE_TARGET_AMQP
                                        : MESSAGE_TARGET_KAFKA;
}

/* "brokers.orders" in a file, "--broker orders" on the command line. */
static const char *brokers_setting(enum option_source source, struct str name, char out[SETTING_TEXT])
{
    snprintf(out, SETTING_TEXT, "%s" STR_FMT, source == FROM_FILE ? "brokers." : "--broker ",
             STR_ARG(str_utf8_cut(name, SETTING_TEXT / 2)));
    return out;
}

static enum err brokers_read_one(struct str given, enum option_source source, struct brokers *ret, struct error *e)
{
    char setting[SETTING_TEXT];
    size_t equals = str_find(given, '=', 0);
    struct buf *text = &ret->texts[ret->n];
    struct message_broker *b = &ret->v[ret->n++];
    *b = (struct message_broker){ .name = str_sub(given, 0, equals) };
    buf_init(text, URL_MAX);
    if (equals == given.n)
        return error_field(e, "--broker", "must be a name and a URL, such as orders=redis://127.0.0.1");
    brokers_setting(source, str_sub(given, 0, equals), setting);
    if (options_read_secret(str_sub(given, equals + 1, given.n), setting, text, e))
        return e->code;
    if (source == FROM_FLAG)
        secret_url_hide(given);
    b->url = buf_str(text);
    return message_broker_check(b, e) ? error_in(e, setting) : ERR_OK;
}

/* "orders.tenants=acme": the rule's name is behind the dot, which no name of a broker has. */
static bool brokers_is_rule(struct str given)
{
    return str_find(given, '.', 0) < str_find(given, '=', 0);
}

static enum err brokers_read_rule(struct str given, enum option_source source, struct brokers *ret, struct error *e)
{
    char setting[SETTING_TEXT];
    size_t dot = str_find(given, '.', 0), equals = str_find(given, '=', 0);
    struct str name = str_sub(given, 0, dot), rule = str_sub(given, dot + 1, equals);
    struct str list = str_trim(str_sub(given, min_of(equals + 1, given.n), given.n));
    size_t i = 0;
    brokers_setting(source, str_sub(given, 0, equals), setting);
    while (i < ret->n && !str_eq(ret->v[i].name, name))
        i++;
    if (i == ret->n)
        return error_field(e, setting, "there is no broker '" STR_FMT "' for this rule", STR_ARG(name));
    if (!list.n)
        return error_field(e, setting, "the rule '" STR_FMT "' of '" STR_FMT "' is empty: give names, or * for all",
                           STR_ARG(rule), STR_ARG(name));
    if (str_eq(rule, S("tenants")))
        ret->rule[i].tenants = list;
    else if (str_eq(rule, S("destinations")))
        ret->rule[i].destinations = list;
    else
        return error_field(e, setting, "'" STR_FMT "' is no rule of a broker, only tenants and destinations",
                           STR_ARG(rule));
    return broker_rules_check_destinations(ret->rule[i].destinations, e) ? error_in(e, setting) : ERR_OK;
}

enum err brokers_read(const struct options *o, struct brokers *ret, struct error *e)
{
    const struct option_value *v = option_get(o, "broker");
    ret->n = 0;
    for (size_t i = 0; i < v->list_count; i++)
        if (!brokers_is_rule(v->list[i]) && brokers_read_one(v->list[i], v->source, ret, e) && options_end_at(o, e))
            return e->code;
    for (size_t i = 0; i < ret->n; i++)
        ret->rule[i] = (struct broker_rule){ .name = ret->v[i].name, .kind = brokers_kind(ret->v[i].url) };
    for (size_t i = 0; i < v->list_count; i++)
        if (brokers_is_rule(v->list[i]) && brokers_read_rule(v->list[i], v->source, ret, e) && options_end_at(o, e))
            return e->code;
    ret->rules = (struct broker_rules){ .v = ret->rule, .n = ret->n };
    return ERR_OK;
}

void brokers_close_own(struct brokers *b, struct str queue_url, struct str events_url)
{
    const struct str urls[] = { queue_url, events_url };
    for (size_t i = 0; i < array_count(urls); i++) {
        bool is_given = str_url_parameter(urls[i], "prefix", b->own[i], sizeof b->own[i]);
        b->rules.own[i] = is_given ? str_from(b->own[i]) : urls[i].n ? S("belfry") : S("");
    }
}

void brokers_release(struct brokers *b)
{
    for (size_t i = 0; i < b->n; i++)
        buf_release(&b->texts[i]);
    b->n = 0;
}
