#include "api/server/thread_pool.h"

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

/* A line of waiting jobs. */
struct pool_line {
    struct map tenants; /* number → struct pool_tenant */
    struct list turns;  /* the same, in the order of their next turns */
};

struct pool_thread {
    struct thread_pool *pool;
    struct reader *reader;
    pthread_t thread;
    bool runs_slow; /* its job is of the slow line. Under the lock */
};

struct thread_pool {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct pool_line quick, slow;
    size_t slow_running; /* threads that run a slow job: at most slow_max */
    size_t slow_max;
    bool stopping;
    void (*run)(struct list *job, struct reader *r);
    struct pool_thread *threads;
    size_t count;
};

static struct str thread_pool_tenant_key(const int32_t *tenant)
{
    return (struct str){ (const char *)tenant, sizeof *tenant };
}

static void thread_pool_line_init(struct pool_line *l)
{
    list_init(&l->turns);
    map_init(&l->tenants, HASH_STABLE); /* tenants are numbers that the server gave */
}

/* Under the lock, like the next. */
static void thread_pool_line_push(struct pool_line *l, int32_t tenant, struct list *job)
{
    struct pool_tenant *t = map_get(&l->tenants, thread_pool_tenant_key(&tenant));
    if (!t) {
        t = xnew(*t);
        t->tenant = tenant;
        list_init(&t->jobs);
        map_put(&l->tenants, thread_pool_tenant_key(&t->tenant), t);
        list_push(&l->turns, &t->turn);
    }
    list_push(&t->jobs, job);
}

static struct list *thread_pool_line_pop(struct pool_line *l)
{
    struct list *turn = list_pop(&l->turns);
    if (!turn)
        return NULL;
    struct pool_tenant *t = container_of(turn, struct pool_tenant, turn);
    struct list *job = list_pop(&t->jobs);
    if (list_empty(&t->jobs))
        free(map_remove(&l->tenants, thread_pool_tenant_key(&t->tenant)));
    else
        list_push(&l->turns, turn);
    return job;
}

/* The slow line comes first: it never has more than its part of the threads, so neither line starves the other. */
static struct list *thread_pool_take_job(struct thread_pool *p, struct pool_thread *w)
{
    struct list *job = p->slow_running < p->slow_max ? thread_pool_line_pop(&p->slow) : NULL;
    w->runs_slow = job;
    p->slow_running += w->runs_slow;
    return job ? job : thread_pool_line_pop(&p->quick);
}

/* A thread that has run a slow job takes the next one itself. So no other thread has to be woken for it, and when the
 * pool stops, the others may end while slow jobs wait. */
static struct list *thread_pool_next_job(struct thread_pool *p, struct pool_thread *w)
{
    struct list *job;
    pthread_mutex_lock(&p->lock);
    p->slow_running -= w->runs_slow;
    while (!(job = thread_pool_take_job(p, w)) && !p->stopping)
        pthread_cond_wait(&p->wake, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return job;
}

static void *thread_pool_thread_run(void *argument)
{
    struct pool_thread *w = argument;
    for (struct list *job; (job = thread_pool_next_job(w->pool, w));)
        w->pool->run(job, w->reader);
    return NULL;
}

void thread_pool_submit(struct thread_pool *p, int32_t tenant, enum thread_pool_cost cost, struct list *job)
{
    assert(cost == THREAD_POOL_QUICK || p->slow_max > 0);
    pthread_mutex_lock(&p->lock);
    thread_pool_line_push(cost == THREAD_POOL_SLOW ? &p->slow : &p->quick, tenant, job);
    pthread_cond_signal(&p->wake); /* under the lock: once the job is done, the pool may be freed */
    pthread_mutex_unlock(&p->lock);
}

void thread_pool_free(struct thread_pool *p)
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
    map_release(&p->quick.tenants);
    map_release(&p->slow.tenants);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

enum err thread_pool_new(struct store *store, size_t threads, void (*run)(struct list *job, struct reader *r),
                         struct thread_pool **ret, struct error *e)
{
    assert(threads > 0);
    struct thread_pool *p = xnew(*p);
    p->run = run;
    p->threads = xcalloc(threads, sizeof *p->threads);
    p->slow_max = threads / 2;
    thread_pool_line_init(&p->quick);
    thread_pool_line_init(&p->slow);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    for (; p->count < threads; p->count++) {
        struct pool_thread *w = &p->threads[p->count];
        w->pool = p;
        enum err rc = store_reader(store, &w->reader, e);
        if (rc) {
            thread_pool_free(p);
            return rc;
        }
        int failed = pthread_create(&w->thread, NULL, thread_pool_thread_run, w);
        assert(!failed);
    }
    *ret = p;
    return ERR_OK;
}
