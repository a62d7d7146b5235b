#include "platform/otlp/otlp_settings.h"

#include <stdlib.h>

#include "platform/otlp/otlp_encode.h"

#define TRACES_PATH "/v1/traces"

static struct str otlp_env(const char *(*env)(const char *), const char *name)
{
    const char *text = env(name);
    return text ? str_trim(str_from(text)) : S("");
}

static bool otlp_is_off(const char *(*env)(const char *))
{
    return str_eq_nocase(otlp_env(env, "OTEL_SDK_DISABLED"), S("true")) ||
           str_eq_nocase(otlp_env(env, "OTEL_TRACES_EXPORTER"), S("none"));
}

/* A URL without a path is that of a collector: spans have their own path there. */
static enum err otlp_set_url(struct str base, const char *name, struct buf *out, struct error *e)
{
    size_t scheme = str_starts(base, S("http://")) ? 7 : str_starts(base, S("https://")) ? 8 : 0;
    if (!scheme || base.n == scheme || base.n > OTLP_TEXT_MAX / 2)
        return error_field(e, name,
                           "must be the http:// or https:// URL of a collector, such as http://127.0.0.1:4318");
    buf_add(out, base);
    size_t slash = str_find(base, '/', scheme);
    if (slash + 1 >= base.n)
        buf_text(out, slash < base.n ? &TRACES_PATH[1] : TRACES_PATH);
    return ERR_OK;
}

/* OTEL_EXPORTER_OTLP_ENDPOINT is always the base, also if it has a path. */
static enum err otlp_set_base(struct str base, const char *name, struct buf *out, struct error *e)
{
    while (base.n && base.p[base.n - 1] == '/')
        base.n--;
    if (otlp_set_url(base, name, out, e))
        return e->code;
    if (str_find(base, '/', sizeof "https://" - 1) < base.n)
        buf_text(out, TRACES_PATH);
    return ERR_OK;
}

static enum err otlp_read_url(struct str endpoint, const char *(*env)(const char *), struct buf *out, struct error *e)
{
    struct str own = otlp_env(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    struct str base = otlp_env(env, "OTEL_EXPORTER_OTLP_ENDPOINT");
    if (endpoint.n)
        return otlp_set_url(endpoint, "trace.endpoint", out, e);
    if (otlp_is_off(env) || (!own.n && !base.n))
        return ERR_OK;
    return own.n ? otlp_set_url(own, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", out, e)
                 : otlp_set_base(base, "OTEL_EXPORTER_OTLP_ENDPOINT", out, e);
}

/* Calls `add` for each pair of "name=value,name=value"; values are percent-encoded. False: the text is not such a
 * list. */
static bool otlp_each_pair(struct str list, void (*add)(struct otlp_settings *, struct str, struct str),
                           struct otlp_settings *s)
{
    struct str rest = list, pair;
    char value[OTLP_TEXT_MAX];
    while (str_cut(&rest, ',', &pair)) {
        size_t equals = str_find(pair, '=', 0);
        struct str name = str_trim(str_sub(pair, 0, equals));
        if (!str_trim(pair).n)
            continue;
        if (equals == pair.n || !name.n ||
            !str_percent_decode(str_trim(str_sub(pair, equals + 1, pair.n)), value, sizeof value))
            return false;
        add(s, name, str_from(value));
    }
    return true;
}

static void otlp_add_header(struct otlp_settings *s, struct str name, struct str value)
{
    buf_printf(&s->headers, STR_FMT ": " STR_FMT, STR_ARG(name), STR_ARG(value));
    buf_char(&s->headers, '\0');
}

static void otlp_add_resource(struct otlp_settings *s, struct str name, struct str value)
{
    if (!str_eq(name, S("service.name")))
        otlp_add_resource_attribute(&s->resource, name, value);
}

/* service.name of the resource attributes counts, unless OTEL_SERVICE_NAME is set. */
static void otlp_add_service(struct otlp_settings *s, struct str name, struct str value)
{
    if (str_eq(name, S("service.name")))
        otlp_add_resource_attribute(&s->resource, name, value);
}

static enum err otlp_read_resource(struct otlp_settings *s, const char *instance, const char *(*env)(const char *),
                                   struct error *e)
{
    struct str list = otlp_env(env, "OTEL_RESOURCE_ATTRIBUTES"), service = otlp_env(env, "OTEL_SERVICE_NAME");
    if (service.n)
        otlp_add_service(s, S("service.name"), service);
    else
        (void)otlp_each_pair(list, otlp_add_service, s);
    if (!s->resource.n)
        otlp_add_service(s, S("service.name"), S("belfry"));
    otlp_add_resource(s, S("service.version"), S(BELFRY_VERSION));
    otlp_add_resource(s, S("service.instance.id"), str_from(instance));
    if (!otlp_each_pair(list, otlp_add_resource, s) || s->resource.full)
        return error_field(e, "OTEL_RESOURCE_ATTRIBUTES", "must be pairs such as deployment.environment=test,team=a");
    return ERR_OK;
}

static enum err otlp_read_headers(struct otlp_settings *s, const char *(*env)(const char *), struct error *e)
{
    static const char *const names[] = { "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS" };
    size_t i = otlp_env(env, names[0]).n ? 0 : 1;
    if (!otlp_each_pair(otlp_env(env, names[i]), otlp_add_header, s) || s->headers.full ||
        (s->headers.n && memchr(s->headers.p, '\n', s->headers.n)))
        return error_field(e, names[i], "must be pairs such as api-key=secret,team=a");
    return ERR_OK;
}

static enum err otlp_read_ratio(struct str text, double *ret, struct error *e)
{
    char *end = NULL;
    double ratio = text.n ? strtod(text.p, &end) : 0; /* option texts are NUL-terminated */
    if (text.n && (end != text.p + text.n || !(ratio >= 0 && ratio <= 1)))
        return error_field(e, "trace.ratio", "must be a number from 0 to 1, such as 0.01");
    *ret = ratio;
    return ERR_OK;
}

enum err otlp_settings_read(struct str endpoint, struct str ratio, const char *instance,
                            const char *(*env)(const char *name), struct otlp_settings *ret, struct error *e)
{
    buf_init(&ret->url, OTLP_TEXT_MAX);
    buf_init(&ret->headers, OTLP_TEXT_MAX);
    buf_init(&ret->resource, OTLP_TEXT_MAX);
    if (otlp_read_ratio(ratio, &ret->ratio, e) || otlp_read_url(endpoint, env, &ret->url, e))
        return e->code;
    if (!ret->url.n)
        return ERR_OK;
    return otlp_read_headers(ret, env, e) || otlp_read_resource(ret, instance, env, e) ? e->code : ERR_OK;
}

void otlp_settings_release(struct otlp_settings *s)
{
    buf_release(&s->url);
    if (s->headers.p)
        explicit_bzero(s->headers.p, s->headers.n);
    buf_release(&s->headers);
    buf_release(&s->resource);
}
