/* A span is encoded by the thread that records it; the ring holds the bytes. */
#include "platform/otlp/otlp_tracer.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/task/sampler.h"
#include "platform/clock_system.h"
#include "platform/otlp/otlp_encode.h"

enum { REQUEST_MAX = OTLP_BATCH * (OTLP_SPAN_MAX + 8) + OTLP_TEXT_MAX + 1024, ANSWER_MAX = 4096 };

enum result { RESULT_EXPORTED, RESULT_DROPPED, RESULT_FAILED, RESULT_REJECTED, RESULTS };
static const char *const result_names[RESULTS] = { "exported", "dropped", "failed", "rejected" };

struct otlp_tracer {
    struct tracer base;
    struct otlp_tracer_setup setup;
    pthread_t thread;

    pthread_mutex_t sampler_lock;
    struct sampler sampler;

    pthread_mutex_t lock; /* guards the next six */
    pthread_cond_t wakeup;
    struct str *ring; /* OTLP_RING of them; owned texts */
    size_t first, n;
    bool stopping;
    int64_t end_ms; /* steady: if it is stopping, when the last try ends */

    /* of the thread */
    CURL *curl;
    struct curl_slist *headers;
    struct buf resource, request, answer;
    struct str batch[OTLP_BATCH];
    char why[CURL_ERROR_SIZE];
    size_t lost; /* spans, since setup.failed was told */
    int64_t told_ms;
};

static struct otlp_tracer *otlp_of(struct tracer *t)
{
    return container_of(t, struct otlp_tracer, base);
}

static void otlp_count(struct otlp_tracer *t, enum result r, size_t n)
{
    metric_add_labelled(t->setup.metrics, METRIC_SPANS, result_names, r, (int64_t)n);
}

/* ---- recording; any thread ---- */

static bool otlp_wants(struct tracer *tracer, const struct trace *trace)
{
    struct otlp_tracer *t = otlp_of(tracer);
    if (sampler_is_fixed(trace))
        return sampler_wants(&t->sampler, trace, 0);
    pthread_mutex_lock(&t->sampler_lock);
    bool wanted = sampler_wants(&t->sampler, trace, clock_steady_ms(t->setup.clock));
    pthread_mutex_unlock(&t->sampler_lock);
    return wanted;
}

static bool otlp_wants_new(struct tracer *tracer, struct uuid id)
{
    return sampler_wants_new(&otlp_of(tracer)->sampler, id);
}

static bool otlp_wants_failure(struct tracer *tracer)
{
    struct otlp_tracer *t = otlp_of(tracer);
    pthread_mutex_lock(&t->sampler_lock);
    bool wanted = sampler_wants_failure(&t->sampler, clock_steady_ms(t->setup.clock));
    pthread_mutex_unlock(&t->sampler_lock);
    return wanted;
}

static void otlp_record(struct tracer *tracer, const struct span *s)
{
    struct otlp_tracer *t = otlp_of(tracer);
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, OTLP_SPAN_MAX);
    otlp_add_span(&text, s);
    pthread_mutex_lock(&t->lock);
    bool room = t->n < OTLP_RING && !text.full && !t->stopping;
    if (room) {
        size_t size = text.n;
        t->ring[(t->first + t->n) % OTLP_RING] = (struct str){ buf_take(&text), size };
        t->n++;
        if (t->n == 1 || t->n == OTLP_BATCH)
            pthread_cond_signal(&t->wakeup);
    }
    pthread_mutex_unlock(&t->lock);
    if (!room)
        otlp_count(t, RESULT_DROPPED, 1);
}

/* ---- sending; the tracer's thread ---- */

static void otlp_free_text(struct str s)
{
    union {
        const char *in;
        char *out;
    } p = { s.p };
    free(p.out);
}

/* Waits for the next batch. 0: it is stopping, and nothing is left. */
static size_t otlp_next_batch(struct otlp_tracer *t)
{
    pthread_mutex_lock(&t->lock);
    while (!t->n && !t->stopping)
        pthread_cond_wait(&t->wakeup, &t->lock);
    struct timespec end = clock_condition_end((int64_t)OTLP_WAIT_MS * 1000);
    while (t->n < OTLP_BATCH && !t->stopping && pthread_cond_timedwait(&t->wakeup, &t->lock, &end) == 0)
        ;
    size_t n = min_of(t->n, (size_t)OTLP_BATCH);
    for (size_t i = 0; i < n; i++)
        t->batch[i] = t->ring[(t->first + i) % OTLP_RING];
    t->first = (t->first + n) % OTLP_RING;
    t->n -= n;
    pthread_mutex_unlock(&t->lock);
    return n;
}

/* How long it may still take; INT64_MAX: it is not stopping. */
static int64_t otlp_left_ms(struct otlp_tracer *t)
{
    pthread_mutex_lock(&t->lock);
    int64_t left_ms = t->stopping ? t->end_ms - clock_steady_ms(t->setup.clock) : INT64_MAX;
    pthread_mutex_unlock(&t->lock);
    return left_ms;
}

static int otlp_on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return otlp_left_ms(context) <= 0;
}

static size_t otlp_on_answer(char *p, size_t size, size_t n, void *context)
{
    struct otlp_tracer *t = context;
    buf_add(&t->answer, (struct str){ p, size * n }); /* the rest of a long one is of no interest */
    return size * n;
}

enum sent { SENT_OK, SENT_AGAIN, SENT_REFUSED };

static enum sent otlp_send(struct otlp_tracer *t, int64_t *ret_retry_after_ms, struct error *why)
{
    long status = 0;
    curl_off_t retry_after_s = 0;
    int64_t left_ms = otlp_left_ms(t);
    if (left_ms <= 0) {
        error_set(why, ERR_UNAVAILABLE, "the process ends");
        return SENT_REFUSED;
    }
    buf_reset(&t->answer);
    t->why[0] = '\0';
    curl_easy_setopt(t->curl, CURLOPT_TIMEOUT_MS, (long)min_of(left_ms, (int64_t)OTLP_TIMEOUT_MS));
    CURLcode rc = curl_easy_perform(t->curl);
    if (rc) {
        error_set(why, ERR_UNAVAILABLE, "%s", t->why[0] ? t->why : curl_easy_strerror(rc));
        return SENT_AGAIN;
    }
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(t->curl, CURLINFO_RETRY_AFTER, &retry_after_s);
    *ret_retry_after_ms = min_of((int64_t)retry_after_s, (int64_t)OTLP_RETRY_AFTER_MAX_MS / 1000) * 1000;
    error_set(why, ERR_UNAVAILABLE, "the collector answered with status %ld", status);
    if (status >= 200 && status < 300)
        return SENT_OK;
    return status == 429 || status == 502 || status == 503 || status == 504 ? SENT_AGAIN : SENT_REFUSED;
}

/* A wait that the end of the process shortens to nothing: then there is one more try. */
static void otlp_pause(struct otlp_tracer *t, int64_t ms)
{
    (void)clock_condition_pause(&t->wakeup, &t->lock, &t->stopping, ms);
}

static bool otlp_try(struct otlp_tracer *t, struct error *why)
{
    int64_t wait_ms = t->setup.retry_ms ? t->setup.retry_ms : OTLP_RETRY_MS;
    for (int i = 1;; i++, wait_ms *= 2) {
        int64_t retry_after_ms = 0;
        bool was_stopping = otlp_left_ms(t) != INT64_MAX;
        enum sent sent = otlp_send(t, &retry_after_ms, why);
        if (sent != SENT_AGAIN || i == OTLP_TRIES || was_stopping)
            return sent == SENT_OK;
        otlp_pause(t, retry_after_ms ? retry_after_ms : wait_ms);
    }
}

static void otlp_tell(struct otlp_tracer *t, const struct error *why, size_t spans)
{
    int64_t now_ms = clock_steady_ms(t->setup.clock);
    t->lost += spans;
    if (!t->setup.failed || (t->told_ms && now_ms - t->told_ms < OTLP_TELL_MS))
        return;
    t->setup.failed(t->setup.context, why, t->lost);
    t->told_ms = now_ms;
    t->lost = 0;
}

static void otlp_export(struct otlp_tracer *t, size_t n)
{
    struct error why = { 0 };
    buf_reset(&t->request);
    otlp_add_request(&t->request, buf_str(&t->resource), t->batch, n);
    for (size_t i = 0; i < n; i++)
        otlp_free_text(t->batch[i]);
    curl_easy_setopt(t->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->request.n);
    curl_easy_setopt(t->curl, CURLOPT_POSTFIELDS, t->request.p);
    bool ok = otlp_try(t, &why);
    size_t rejected = ok ? (size_t)min_of(otlp_read_rejected(buf_str(&t->answer)), (int64_t)n) : 0;
    otlp_count(t, ok ? RESULT_EXPORTED : RESULT_FAILED, n - rejected);
    if (rejected) {
        otlp_count(t, RESULT_REJECTED, rejected);
        error_set(&why, ERR_INVALID, "the collector rejected some spans");
    }
    if (!ok || rejected)
        otlp_tell(t, &why, ok ? rejected : n);
}

static void *otlp_thread(void *context)
{
    struct otlp_tracer *t = context;
    for (size_t n; (n = otlp_next_batch(t));)
        otlp_export(t, n);
    return NULL;
}

/* ---- construction and destruction ---- */

static void otlp_prepare_request(struct otlp_tracer *t, const struct otlp_settings *s)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
    t->curl = curl_easy_init();
    if (!t->curl)
        abort();
    t->headers = curl_slist_append(NULL, "Content-Type: application/x-protobuf");
    t->headers = curl_slist_append(t->headers, "Expect:");
    for (size_t at = 0; at < s->headers.n; at += strlen(s->headers.p + at) + 1)
        t->headers = curl_slist_append(t->headers, s->headers.p + at);
    curl_easy_setopt(t->curl, CURLOPT_URL, buf_cstr(&s->url));
    curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(t->curl, CURLOPT_USERAGENT, "Belfry/" BELFRY_VERSION);
    curl_easy_setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(t->curl, CURLOPT_ERRORBUFFER, t->why);
    curl_easy_setopt(t->curl, CURLOPT_POST, 1L);
    curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, otlp_on_answer);
    curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(t->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(t->curl, CURLOPT_XFERINFOFUNCTION, otlp_on_progress);
    curl_easy_setopt(t->curl, CURLOPT_XFERINFODATA, t);
    if (t->setup.ca_file)
        curl_easy_setopt(t->curl, CURLOPT_CAINFO, t->setup.ca_file);
}

static void otlp_release(struct otlp_tracer *t)
{
    otlp_count(t, RESULT_DROPPED, t->n);
    for (size_t i = 0; i < t->n; i++)
        otlp_free_text(t->ring[(t->first + i) % OTLP_RING]);
    free(t->ring);
    curl_easy_cleanup(t->curl);
    curl_slist_free_all(t->headers);
    buf_release(&t->resource);
    buf_release(&t->request);
    buf_release(&t->answer);
    pthread_cond_destroy(&t->wakeup);
    pthread_mutex_destroy(&t->lock);
    pthread_mutex_destroy(&t->sampler_lock);
    free(t);
}

static void otlp_free(struct tracer *tracer)
{
    struct otlp_tracer *t = otlp_of(tracer);
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    t->end_ms = clock_steady_ms(t->setup.clock) + OTLP_END_MS;
    pthread_cond_signal(&t->wakeup);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    otlp_release(t);
}

static const struct tracer_ops otlp_ops = {
    .wants = otlp_wants,
    .wants_new = otlp_wants_new,
    .wants_failure = otlp_wants_failure,
    .record = otlp_record,
    .free = otlp_free,
};

enum err otlp_tracer_new(const struct otlp_tracer_setup *setup, struct tracer **ret, struct error *e)
{
    struct otlp_tracer *t = xnew(*t);
    t->base.ops = &otlp_ops;
    t->setup = *setup;
    sampler_init(&t->sampler, setup->settings->ratio, clock_steady_ms(setup->clock));
    pthread_mutex_init(&t->lock, NULL);
    pthread_mutex_init(&t->sampler_lock, NULL);
    clock_condition_init(&t->wakeup);
    t->ring = xcalloc(OTLP_RING, sizeof *t->ring);
    buf_init(&t->resource, OTLP_TEXT_MAX);
    buf_init(&t->request, REQUEST_MAX);
    buf_init(&t->answer, ANSWER_MAX);
    buf_add(&t->resource, buf_str(&setup->settings->resource));
    otlp_prepare_request(t, setup->settings);
    t->setup.settings = NULL;
    for (int i = 0; i < RESULTS; i++)
        otlp_count(t, (enum result)i, 0);
    int why = pthread_create(&t->thread, NULL, otlp_thread, t);
    if (why) {
        otlp_release(t);
        return error_set(e, ERR_UNAVAILABLE, "cannot start a thread: %s", strerror(why));
    }
    *ret = &t->base;
    return ERR_OK;
}
