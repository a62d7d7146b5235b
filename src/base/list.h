#pragma once
/* base/list.h - an intrusive doubly linked list: header only, no allocation.
 *
 *   struct list waiting; list_init(&waiting);
 *   list_push(&waiting, &job->link);
 *   list_each (&waiting, link) { struct job *j = container_of(link, struct job, link); … }   the body may remove
 * `link` */
#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev; /* a ring through the head; a node in no list points to itself or is zeroed */
};

static inline void list_init(struct list *l)
{
    l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline bool list_linked(const struct list *node)
{
    return node->next && node->next != node;
}

static inline void list_insert_before(struct list *place, struct list *node)
{
    node->prev = place->prev;
    node->next = place;
    place->prev->next = node;
    place->prev = node;
}

static inline void list_push(struct list *l, struct list *node) /* at the end */
{
    list_insert_before(l, node);
}

static inline void list_push_front(struct list *l, struct list *node)
{
    list_insert_before(l->next, node);
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = node;
}

static inline struct list *list_pop(struct list *l) /* the first; NULL if empty */
{
    if (list_empty(l))
        return NULL;
    struct list *node = l->next;
    list_remove(node);
    return node;
}

static inline void list_append(struct list *l, struct list *from) /* moves all nodes of `from`, in order */
{
    if (list_empty(from))
        return;
    from->next->prev = l->prev;
    from->prev->next = l;
    l->prev->next = from->next;
    l->prev = from->prev;
    list_init(from);
}

#define list_each(l, node)                                                                                             \
    for (struct list *node = (l)->next, *node##_next_ = node->next; node != (l);                                       \
         node = node##_next_, node##_next_ = node->next)
