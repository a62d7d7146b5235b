#include "api/server/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct pool_thread {
    struct pool *pool;
    struct reader *reader;
    pthread_t thread;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct list jobs;
    bool stopping;
    void (*run)(struct list *job, struct reader *r);
    struct pool_thread *threads;
    size_t count;
};

static struct list *pool_next_job(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    while (list_empty(&p->jobs) && !p->stopping)
        pthread_cond_wait(&p->wake, &p->lock);
    struct list *job = list_pop(&p->jobs);
    pthread_mutex_unlock(&p->lock);
    return job;
}

static void *pool_thread_run(void *argument)
{
    struct pool_thread *w = argument;
    for (struct list *job; (job = pool_next_job(w->pool));)
        w->pool->run(job, w->reader);
    return NULL;
}

void pool_submit(struct pool *p, struct list *job)
{
    pthread_mutex_lock(&p->lock);
    list_push(&p->jobs, job);
    pthread_cond_signal(&p->wake); /* under the lock: once the job is done, the pool may be freed */
    pthread_mutex_unlock(&p->lock);
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_mutex_unlock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    for (size_t i = 0; i < p->count; i++) {
        pthread_join(p->threads[i].thread, NULL);
        reader_free(p->threads[i].reader);
    }
    free(p->threads);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

enum err pool_new(struct store *store, size_t threads, void (*run)(struct list *job, struct reader *r),
                  struct pool **ret, struct error *e)
{
    assert(threads > 0);
    struct pool *p = xnew(*p);
    p->run = run;
    p->threads = xcalloc(threads, sizeof *p->threads);
    list_init(&p->jobs);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    for (; p->count < threads; p->count++) {
        struct pool_thread *w = &p->threads[p->count];
        w->pool = p;
        enum err rc = store_reader(store, &w->reader, e);
        if (rc) {
            pool_free(p);
            return rc;
        }
        int failed = pthread_create(&w->thread, NULL, pool_thread_run, w);
        assert(!failed);
    }
    *ret = p;
    return ERR_OK;
}
