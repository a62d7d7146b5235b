#include "api/server/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/map.h"

/* The waiting jobs of one tenant. It exists while there are some. */
struct pool_tenant {
    int32_t tenant;
    struct list turn; /* in the pool's `turns` */
    struct list jobs;
};

struct pool_thread {
    struct pool *pool;
    struct reader *reader;
    pthread_t thread;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct map tenants; /* number → struct pool_tenant */
    struct list turns;  /* the same, in the order of their next turns */
    bool stopping;
    void (*run)(struct list *job, struct reader *r);
    struct pool_thread *threads;
    size_t count;
};

static struct str pool_tenant_key(const int32_t *tenant)
{
    return (struct str){ (const char *)tenant, sizeof *tenant };
}

/* Under the lock, like the next. */
static void pool_push(struct pool *p, int32_t tenant, struct list *job)
{
    struct pool_tenant *t = map_get(&p->tenants, pool_tenant_key(&tenant));
    if (!t) {
        t = xnew(*t);
        t->tenant = tenant;
        list_init(&t->jobs);
        map_put(&p->tenants, pool_tenant_key(&t->tenant), t);
        list_push(&p->turns, &t->turn);
    }
    list_push(&t->jobs, job);
}

static struct list *pool_pop(struct pool *p)
{
    struct list *turn = list_pop(&p->turns);
    if (!turn)
        return NULL;
    struct pool_tenant *t = container_of(turn, struct pool_tenant, turn);
    struct list *job = list_pop(&t->jobs);
    if (list_empty(&t->jobs))
        free(map_remove(&p->tenants, pool_tenant_key(&t->tenant)));
    else
        list_push(&p->turns, turn);
    return job;
}

static struct list *pool_next_job(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    while (list_empty(&p->turns) && !p->stopping)
        pthread_cond_wait(&p->wake, &p->lock);
    struct list *job = pool_pop(p);
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

void pool_submit(struct pool *p, int32_t tenant, struct list *job)
{
    pthread_mutex_lock(&p->lock);
    pool_push(p, tenant, job);
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
    map_release(&p->tenants);
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
    list_init(&p->turns);
    map_init(&p->tenants, HASH_STABLE); /* tenants are numbers that the server gave */
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
