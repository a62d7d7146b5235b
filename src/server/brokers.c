#include "server/brokers.h"

#include <stdio.h>

#include "server/options.h"
#include "server/secret_url.h"

enum { URL_MAX = 4096 };

static enum err brokers_read_one(struct str given, enum option_source source, struct brokers *ret, struct error *e)
{
    size_t equals = str_find(given, '=', 0);
    struct buf *text = &ret->texts[ret->n];
    struct message_broker *b = &ret->v[ret->n++];
    buf_init(text, URL_MAX);
    if (equals == given.n)
        return error_field(e, "--broker", "must be a name and a URL, such as orders=redis://127.0.0.1");
    if (options_read_secret(str_sub(given, equals + 1, given.n), "--broker", text, e))
        return e->code;
    if (source == FROM_FLAG)
        secret_url_hide(given);
    b->name = str_sub(given, 0, equals);
    b->url = buf_str(text);
    return message_broker_check(b, e) ? error_in(e, "--broker") : ERR_OK;
}

enum err brokers_read(const struct options *o, struct brokers *ret, struct error *e)
{
    const struct option_value *v = option_get(o, "broker");
    ret->n = 0;
    for (size_t i = 0; i < v->list_count; i++)
        if (brokers_read_one(v->list[i], v->source, ret, e))
            return e->code;
    return ERR_OK;
}

void brokers_release(struct brokers *b)
{
    for (size_t i = 0; i < b->n; i++)
        buf_release(&b->texts[i]);
    b->n = 0;
}
