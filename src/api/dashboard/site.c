#include "api/dashboard/site.h"

#include <stdio.h>

#include "api/dashboard/browser_origin.h"
#include "api/server/gzip.h"
#include "api/server/negotiate.h"
#include "api/server/request.h"
#include "base/embed.h"

extern const struct embedded_asset dashboard_files[]; /* generated from src/dashboard by tools/embed */
extern const size_t dashboard_files_count;
extern const char dashboard_files_hash[];

#define SITE_ROOT    "/ui/"
#define SITE_FOREVER "public, max-age=31536000, immutable"

static const struct {
    const char *name, *value;
} site_headers[] = {
    { "Content-Security-Policy",
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'" },
    { "Cross-Origin-Opener-Policy", "same-origin" },
    { "Cross-Origin-Resource-Policy", "same-origin" },
    { "Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()" },
    { "Referrer-Policy", "no-referrer" },
    { "X-Frame-Options", "DENY" },
};

void site_add_headers(struct http_answer *a)
{
    for (size_t i = 0; i < array_count(site_headers); i++)
        http_answer_add(a, site_headers[i].name, site_headers[i].value);
}

static const struct embedded_asset *site_find(struct str path)
{
    for (size_t i = 0; i < dashboard_files_count; i++)
        if (str_eq(path, str_from(dashboard_files[i].path)))
            return &dashboard_files[i];
    return NULL;
}

static enum handled site_answer(struct request *q, const struct embedded_asset *file, const char *cache)
{
    struct response *r = &q->response;
    struct browser_origin o;
    if (!browser_origin_read(q, &o)) {
        browser_origin_refuse(q);
        return HANDLED_DONE;
    }
    respond_page(r, 200, file->type);
    r->is_static = true;
    r->cache = cache;
    snprintf(r->etag, sizeof r->etag, "%s", file->etag);
    r->is_gzip = accept_encoding_allows_gzip(q->head.accept_encoding);
    if (r->is_gzip)
        buf_add(&r->body, file->gzip);
    else
        gunzip(file->gzip, file->bytes, &r->body);
    return HANDLED_DONE;
}

void site_refuse(struct request *q, int status, const char *text)
{
    respond_page(&q->response, status, "text/html; charset=utf-8");
    buf_printf(&q->response.body, "<!doctype html><title>Belfry</title><p>%s\n", text);
}

static enum handled site_answer_missing(struct request *q)
{
    site_refuse(q, 404, "There is no such page. <a href=\"" SITE_ROOT "\">Open the dashboard</a>.");
    return HANDLED_DONE;
}

enum handled site_index(struct request *q, struct reader *r)
{
    (void)r;
    const struct embedded_asset *file = site_find(S("index.html"));
    return file ? site_answer(q, file, NULL) : site_answer_missing(q);
}

/* HASH/path. The index has no second address. */
enum handled site_file(struct request *q, struct reader *r)
{
    (void)r;
    struct str path = q->name, hash;
    const struct embedded_asset *file = NULL;
    if (str_cut(&path, '/', &hash) && str_eq(hash, str_from(dashboard_files_hash)) && !str_eq(path, S("index.html")))
        file = site_find(path);
    return file ? site_answer(q, file, SITE_FOREVER) : site_answer_missing(q);
}

/* Who types the address of the server into a browser wants the dashboard. */
enum handled site_redirect(struct request *q, struct reader *r)
{
    (void)r;
    bool always = q->route->argument;
    if (!always && !accept_names(q->head.accept, S("text/html")))
        return request_refuse(q, PROBLEM_NOT_FOUND, ROUTE_MISSING);
    respond_page(&q->response, 302, NULL);
    snprintf(q->response.location, sizeof q->response.location, SITE_ROOT);
    return HANDLED_DONE;
}
