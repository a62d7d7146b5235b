#include "server/planner_threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

/* A plan on its way back to the loop. */
struct planned {
    struct call call;
    struct plan *plan;
};

struct planner_thread {
    struct planner_threads *all;
    pthread_t thread;
    bool started;
    struct reader *reader; /* of this thread alone; NULL: it could not be opened yet */
};

struct planner_threads {
    struct planner base;
    struct store *store;
    struct loop *loop;
    struct definition_cache *definitions;
    const struct secrets *secrets;
    struct planner_thread threads[PLANNER_THREADS];
    pthread_mutex_t lock; /* guards the next two */
    struct list waiting;
    bool stopping;
    pthread_cond_t wakeup;
};

static void planner_on_planned(struct call *c)
{
    struct planned *p = container_of(c, struct planned, call);
    struct plan *plan = p->plan;
    free(p);
    plan->done(plan);
}

static void planner_make(struct planner_thread *t, struct plan *plan)
{
    if (!t->reader && store_reader(t->all->store, &t->reader, &plan->error)) {
        plan->rc = plan->error.code;
        return;
    }
    struct planner_context c = { .reader = t->reader, .definitions = t->all->definitions, .secrets = t->all->secrets };
    workflow_plan(&c, plan);
}

static void *planner_thread_run(void *arg)
{
    struct planner_thread *t = arg;
    struct planner_threads *all = t->all;
    pthread_mutex_lock(&all->lock);
    for (;;) {
        while (list_empty(&all->waiting) && !all->stopping)
            pthread_cond_wait(&all->wakeup, &all->lock);
        if (list_empty(&all->waiting))
            break;
        struct plan *plan = container_of(all->waiting.next, struct plan, link);
        list_remove(&plan->link);
        pthread_mutex_unlock(&all->lock);
        planner_make(t, plan);
        struct planned *p = xnew(*p);
        *p = (struct planned){ .call = { .fn = planner_on_planned }, .plan = plan };
        loop_call(all->loop, &p->call);
        pthread_mutex_lock(&all->lock);
    }
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

static void planner_threads_submit(struct planner *base, struct plan *plan)
{
    struct planner_threads *t = container_of(base, struct planner_threads, base);
    pthread_mutex_lock(&t->lock);
    list_push(&t->waiting, &plan->link);
    pthread_cond_signal(&t->wakeup);
    pthread_mutex_unlock(&t->lock);
}

enum err planner_threads_new(struct store *store, struct loop *loop, struct definition_cache *definitions,
                             const struct secrets *secrets, struct planner_threads **ret, struct error *e)
{
    static const struct planner_ops ops = { .submit = planner_threads_submit };
    struct planner_threads *t = xnew(*t);
    *t = (struct planner_threads){
        .base = { .ops = &ops }, .store = store, .loop = loop, .definitions = definitions, .secrets = secrets
    };
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wakeup, NULL);
    list_init(&t->waiting);
    for (size_t i = 0; i < PLANNER_THREADS; i++) {
        struct planner_thread *thread = &t->threads[i];
        thread->all = t;
        if (pthread_create(&thread->thread, NULL, planner_thread_run, thread)) {
            planner_threads_free(t);
            return error_set(e, ERR_UNAVAILABLE, "no thread could be started for workflows");
        }
        thread->started = true;
    }
    *ret = t;
    return ERR_OK;
}

void planner_threads_free(struct planner_threads *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_broadcast(&t->wakeup);
    pthread_mutex_unlock(&t->lock);
    for (size_t i = 0; i < PLANNER_THREADS; i++) {
        if (t->threads[i].started)
            pthread_join(t->threads[i].thread, NULL);
        reader_free(t->threads[i].reader);
    }
    assert(list_empty(&t->waiting));
    pthread_cond_destroy(&t->wakeup);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

struct planner *planner_threads_planner(struct planner_threads *t)
{
    return &t->base;
}
