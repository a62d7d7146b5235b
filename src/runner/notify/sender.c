#include "runner/notify/sender.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "core/target/address.h"
#include "core/target/target_url.h"
#include "core/task/outcome.h"
#include "core/task/retry_after.h"

enum { RESPONSE_MAX = 1 << 20, RETRY_AFTER_TEXT = 64, REPLY_TEXT = 60, RECIPIENT_TEXT = 300 };

struct sending {
    struct sender *sender;
    CURL *easy;
    struct curl_slist *headers, *to;
    void *context;
    char *body;
    size_t body_n, body_at, response_bytes;
    bool is_used, is_mail, is_guarded, is_blocked, is_literal, is_capped;
    char retry_after[RETRY_AFTER_TEXT], error[CURL_ERROR_SIZE];
    char recipient[RECIPIENT_TEXT]; /* of the last RCPT that has no reply yet; else empty */
    char refused[SENDER_ERROR];     /* recipients that the mail server did not take, with its replies */
    size_t recipients, refusals;
};

struct sender {
    struct sender_setup setup;
    struct guard guard;
    CURLM *multi;
    struct sending slots[SENDER_SLOTS];
    size_t used;
};

/* ---- libcurl callbacks ---- */

static curl_socket_t sender_on_open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct sending *x = context;
    (void)purpose;
    if (x->is_guarded && !guard_allows(&x->sender->guard, &to->addr)) {
        x->is_blocked = true;
        return CURL_SOCKET_BAD;
    }
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static size_t sender_on_answer(char *p, size_t size, size_t count, void *context)
{
    struct sending *x = context;
    (void)p;
    x->response_bytes += size * count;
    x->is_capped = x->response_bytes > RESPONSE_MAX; /* the status is known: nothing more is read */
    return x->is_capped ? 0 : size * count;
}

static size_t sender_on_header(char *p, size_t size, size_t count, void *context)
{
    static const struct str wanted = { "retry-after:", 12 };
    struct sending *x = context;
    struct str line = { p, size * count };
    if (line.n > wanted.n && str_eq_nocase(str_sub(line, 0, wanted.n), wanted)) {
        struct str value = str_trim(str_sub(line, wanted.n, str_find(line, '\r', wanted.n)));
        snprintf(x->retry_after, sizeof x->retry_after, STR_FMT, STR_ARG(value));
    }
    return line.n;
}

static size_t sender_on_mail(char *out, size_t size, size_t count, void *context)
{
    struct sending *x = context;
    size_t n = min_of(size * count, x->body_n - x->body_at);
    memcpy(out, x->body + x->body_at, n);
    x->body_at += n;
    return n;
}

/* "gone@example.com (550 no such user)". The text is a stranger's: only characters that can be shown are kept. */
static void sender_note_refusal(struct sending *x, struct str reply)
{
    size_t n = strlen(x->refused);
    reply = str_sub(reply, 0, min_of(reply.n, (size_t)REPLY_TEXT));
    n += (size_t)snprintf(x->refused + n, sizeof x->refused - n, "%s%s (", x->refusals++ ? ", " : "", x->recipient);
    for (size_t i = 0; i < reply.n && n + 2 < sizeof x->refused; i++)
        x->refused[n++] = reply.p[i] >= ' ' && reply.p[i] <= '~' ? reply.p[i] : ' ';
    if (n + 1 < sizeof x->refused)
        snprintf(x->refused + n, sizeof x->refused - n, ")");
}

/* What is said to the mail server, and its replies: libcurl itself does not tell which recipients were refused. One
 * command is sent at a time, so that a reply is that to the last one. */
static int sender_on_dialog(CURL *easy, curl_infotype type, char *p, size_t size, void *context)
{
    static const struct str rcpt = { "RCPT TO:<", 9 };
    struct sending *x = context;
    struct str line = { p, size };
    line.n = str_find(line, '\r', 0);
    (void)easy;
    if (type == CURLINFO_HEADER_OUT && str_starts(line, rcpt)) {
        struct str address = str_sub(line, rcpt.n, str_find(line, '>', rcpt.n));
        snprintf(x->recipient, sizeof x->recipient, STR_FMT, STR_ARG(address));
        x->recipients++;
    }
    if (type != CURLINFO_HEADER_IN || !x->recipient[0] || line.n < 3 || (line.n > 3 && line.p[3] == '-'))
        return 0;
    if (line.p[0] != '2')
        sender_note_refusal(x, line);
    x->recipient[0] = '\0';
    return 0;
}

/* ---- starting ---- */

static void sender_set_trust(const struct sender *s, CURL *h)
{
    if (s->setup.ca_file) {
        curl_easy_setopt(h, CURLOPT_CAINFO, s->setup.ca_file);
        curl_easy_setopt(h, CURLOPT_CAPATH, NULL);
    }
    curl_easy_setopt(h, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
}

static bool sender_is_literal(struct str text)
{
    struct target_url url;
    struct address a;
    return target_url_split(text, &url) && address_parse(target_host_name(url.host), &a);
}

static void sender_set_http(struct sending *x, const struct send_request *r)
{
    char *url = xmalloc(r->url.n + 1);
    memcpy(url, r->url.p, r->url.n);
    url[r->url.n] = '\0';
    for (size_t i = 0; i < SENDER_HEADERS_MAX && r->headers[i]; i++)
        if (!strpbrk(r->headers[i], "\r\n")) /* nothing that a user wrote makes a header of its own */
            x->headers = curl_slist_append(x->headers, r->headers[i]);
    x->is_literal = sender_is_literal(r->url);
    curl_easy_setopt(x->easy, CURLOPT_URL, url);
    free(url);
    curl_easy_setopt(x->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(x->easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers);
    if (!r->is_heartbeat) {
        curl_easy_setopt(x->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body_n);
        curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, x->body);
    }
    curl_easy_setopt(x->easy, CURLOPT_HEADERFUNCTION, sender_on_header);
    curl_easy_setopt(x->easy, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(x->easy, CURLOPT_USERAGENT, "Belfry/" BELFRY_VERSION);
}

static void sender_set_mail(struct sending *x, const struct send_request *r)
{
    const struct sender_setup *setup = &x->sender->setup;
    for (size_t i = 0; i < r->mail_to_count; i++) {
        char to[RECIPIENT_TEXT];
        snprintf(to, sizeof to, "<" STR_FMT ">", STR_ARG(r->mail_to[i]));
        x->to = curl_slist_append(x->to, to);
    }
    curl_easy_setopt(x->easy, CURLOPT_URL, setup->smtp_url);
    curl_easy_setopt(x->easy, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    curl_easy_setopt(x->easy, CURLOPT_USE_SSL, (long)(setup->smtp_plaintext ? CURLUSESSL_TRY : CURLUSESSL_ALL));
    curl_easy_setopt(x->easy, CURLOPT_MAIL_FROM, r->mail_from);
    curl_easy_setopt(x->easy, CURLOPT_MAIL_RCPT, x->to);
    curl_easy_setopt(x->easy, CURLOPT_MAIL_RCPT_ALLLOWFAILS, 1L); /* a refused recipient does not repeat the others */
    if (setup->smtp_user) {
        curl_easy_setopt(x->easy, CURLOPT_USERNAME, setup->smtp_user);
        curl_easy_setopt(x->easy, CURLOPT_PASSWORD, setup->smtp_password ? setup->smtp_password : "");
    }
    curl_easy_setopt(x->easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(x->easy, CURLOPT_READFUNCTION, sender_on_mail);
    curl_easy_setopt(x->easy, CURLOPT_READDATA, x);
    curl_easy_setopt(x->easy, CURLOPT_DEBUGFUNCTION, sender_on_dialog);
    curl_easy_setopt(x->easy, CURLOPT_DEBUGDATA, x);
    curl_easy_setopt(x->easy, CURLOPT_VERBOSE, 1L);
}

void sender_start(struct sender *s, const struct send_request *r)
{
    struct sending *x = s->slots;
    assert(s->used < SENDER_SLOTS);
    while (x->is_used)
        x++;
    *x = (struct sending){ .sender = s, .context = r->context, .is_used = true, .is_mail = r->mail_from != NULL };
    x->is_guarded = !x->is_mail && !r->is_heartbeat;
    x->body = xmalloc(r->body.n + 1);
    if (r->body.n) /* a heartbeat has none */
        memcpy(x->body, r->body.p, r->body.n);
    x->body_n = r->body.n;
    x->easy = curl_easy_init();
    if (!x->easy)
        abort(); /* out of memory, as xmalloc */
    curl_easy_setopt(x->easy, CURLOPT_PRIVATE, x);
    curl_easy_setopt(x->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(x->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(x->easy, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
    curl_easy_setopt(x->easy, CURLOPT_ERRORBUFFER, x->error);
    curl_easy_setopt(x->easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(x->easy, CURLOPT_FORBID_REUSE, 1L); /* each is guarded by itself */
    curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETFUNCTION, sender_on_open_socket);
    curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETDATA, x);
    curl_easy_setopt(x->easy, CURLOPT_WRITEFUNCTION, sender_on_answer);
    curl_easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
    sender_set_trust(s, x->easy);
    if (x->is_mail)
        sender_set_mail(x, r);
    else
        sender_set_http(x, r);
    curl_multi_add_handle(s->multi, x->easy);
    s->used++;
}

/* ---- results ---- */

static void sender_release(struct sending *x)
{
    curl_multi_remove_handle(x->sender->multi, x->easy);
    curl_easy_cleanup(x->easy);
    curl_slist_free_all(x->headers);
    curl_slist_free_all(x->to);
    free(x->body);
    x->sender->used--;
    x->is_used = false;
}

static void sender_judge(const struct sending *x, CURLcode rc, int64_t now_ms, struct send_result *ret)
{
    long status = 0;
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    *ret = (struct send_result){ .context = x->context, .http_status = status, .retry_after_ms = -1 };
    rc = x->is_capped ? CURLE_OK : rc;
    if (x->is_mail) {
        ret->ok = rc == CURLE_OK;
        ret->is_final = !ret->ok && rc != CURLE_LOGIN_DENIED && status >= 500; /* the operator may mend the password */
    } else {
        ret->ok = rc == CURLE_OK && status >= 200 && status < 300;
        ret->is_final = x->is_blocked || (rc == CURLE_OK && http_status_is_final((int)status));
    }
    if (x->retry_after[0])
        ret->retry_after_ms = retry_after_ms(str_from(x->retry_after), now_ms);
    if (x->refusals) {
        snprintf(ret->error, sizeof ret->error, "%zu of %zu recipients %s refused: %s", x->refusals, x->recipients,
                 x->refusals == 1 ? "was" : "were", x->refused);
        return;
    }
    if (ret->ok)
        return;
    if (x->is_blocked && x->is_literal)
        snprintf(ret->error, sizeof ret->error, "%s", GUARD_REFUSED);
    else if (x->is_blocked || (x->is_guarded && rc == CURLE_COULDNT_RESOLVE_HOST))
        snprintf(ret->error, sizeof ret->error, "%s", GUARD_NOT_FOUND); /* so that nobody finds out internal names */
    else if (rc != CURLE_OK)
        snprintf(ret->error, sizeof ret->error, "%s", x->error[0] ? x->error : curl_easy_strerror(rc));
    else
        snprintf(ret->error, sizeof ret->error, "HTTP %ld", status);
}

size_t sender_poll(struct sender *s, int wait_ms, int64_t now_ms, struct send_result ret[SENDER_SLOTS])
{
    int running = 0, left = 0;
    size_t n = 0;
    curl_multi_perform(s->multi, &running);
    if (!s->used || (size_t)running == s->used)
        curl_multi_poll(s->multi, NULL, 0, wait_ms, NULL);
    curl_multi_perform(s->multi, &running);
    for (CURLMsg *m; (m = curl_multi_info_read(s->multi, &left));) {
        struct sending *x = NULL;
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode rc = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x);
        sender_judge(x, rc, now_ms, &ret[n++]);
        sender_release(x);
    }
    return n;
}

size_t sender_room(const struct sender *s)
{
    return SENDER_SLOTS - s->used;
}

void sender_wake(struct sender *s)
{
    curl_multi_wakeup(s->multi);
}

struct sender *sender_new(const struct sender_setup *setup)
{
    struct sender *s = xnew(*s);
    s->setup = *setup;
    guard_init(&s->guard, &setup->guard);
    s->multi = curl_multi_init();
    if (!s->multi)
        abort(); /* out of memory, as xmalloc */
    return s;
}

void sender_free(struct sender *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < SENDER_SLOTS; i++)
        if (s->slots[i].is_used)
            sender_release(&s->slots[i]);
    curl_multi_cleanup(s->multi);
    guard_release(&s->guard);
    free(s);
}
