#include "api/live/live_filter.h"

#include <stdlib.h>

#include "base/mem.h"

void live_filters_init(struct live_filters *all)
{
    *all = (struct live_filters){ 0 };
    list_init(&all->v);
}

/* ---- bits ---- */

static uint64_t live_bit_of_id(struct uuid id)
{
    return UINT64_C(1) << (id.b[sizeof id.b - 1] & 63);
}

static uint64_t live_bit_of_queue(struct str queue)
{
    return queue.n ? UINT64_C(1) << ((queue.n + (unsigned char)queue.p[queue.n - 1]) & 63) : 0;
}

static bool live_filters_may_want(const struct live_filters *all, struct uuid id, struct uuid parent, struct str queue)
{
    return (all->ids && all->ids & (live_bit_of_id(id) | live_bit_of_id(parent))) ||
           (all->queues && all->queues & live_bit_of_queue(queue));
}

static void live_filters_set_bits(struct live_filters *all)
{
    all->ids = all->queues = 0;
    list_each (&all->v, link) {
        const struct live_filter *f = container_of(link, struct live_filter, link);
        if (!uuid_is_nil(f->task))
            all->ids |= live_bit_of_id(f->task);
        else
            all->queues |= live_bit_of_queue(f->queue);
    }
}

/* ---- streams ---- */

struct live_filter *live_filters_join(struct live_filters *all, struct uuid task, struct str queue)
{
    struct live_filter *f;
    if (uuid_is_nil(task) && !queue.n)
        return NULL;
    list_each (&all->v, link) {
        f = container_of(link, struct live_filter, link);
        if (uuid_eq(f->task, task) && str_eq(f->queue, queue)) {
            f->stream_count++;
            return f;
        }
    }
    f = xmalloc(sizeof *f + str_pack_size(queue));
    char *at = (char *)(f + 1);
    *f = (struct live_filter){ .stream_count = 1, .task = task, .queue = str_pack(queue, &at) };
    list_push(&all->v, &f->link);
    live_filters_set_bits(all);
    return f;
}

void live_filters_leave(struct live_filters *all, struct live_filter *f)
{
    if (!f || --f->stream_count)
        return;
    list_remove(&f->link);
    free(f);
    live_filters_set_bits(all);
}

/* ---- tasks ---- */

bool live_filter_wants(const struct live_filter *f, struct uuid id, struct uuid parent, struct str queue)
{
    bool is_task = uuid_is_nil(f->task) || uuid_eq(f->task, id) || uuid_eq(f->task, parent);
    return is_task && (!f->queue.n || str_eq(f->queue, queue));
}

bool live_filters_want(const struct live_filters *all, struct uuid id, struct uuid parent, struct str queue)
{
    if (!live_filters_may_want(all, id, parent, queue))
        return false;
    list_each (&all->v, link)
        if (live_filter_wants(container_of(link, struct live_filter, link), id, parent, queue))
            return true;
    return false;
}

void live_filters_fold(struct live_filters *all, struct uuid id, struct uuid parent, struct str queue)
{
    all->folded++;
    if (!live_filters_may_want(all, id, parent, queue))
        return;
    list_each (&all->v, link) {
        struct live_filter *f = container_of(link, struct live_filter, link);
        f->folded += live_filter_wants(f, id, parent, queue);
    }
}

uint64_t live_filters_folded(const struct live_filters *all, const struct live_filter *f)
{
    return f ? f->folded : all->folded;
}
