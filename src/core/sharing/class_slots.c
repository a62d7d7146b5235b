#include "core/sharing/class_slots.h"

enum { KEPT_PART = 10 }; /* one place in so many is kept for a class */

static size_t class_slots_less(size_t n, size_t by)
{
    return n - min_of(n, by);
}

struct class_slots class_slots_of(size_t n, const size_t running[CLASSES])
{
    struct class_slots r = { .free = n };
    for (int c = 0; c < CLASSES; c++) {
        r.free = class_slots_less(r.free, running[c]);
        r.kept[c] = c == CLASS_LOW ? 0 : class_slots_less(n / KEPT_PART, running[c]);
    }
    return r;
}

size_t class_slots_for(const struct class_slots *r, enum priority_class c)
{
    size_t room = r->free;
    for (int d = (int)c + 1; d < CLASSES; d++)
        room = class_slots_less(room, r->kept[d]);
    return room;
}

int class_slots_lowest(const struct class_slots *r)
{
    int c = CLASS_LOW;
    while (c < CLASSES && !class_slots_for(r, (enum priority_class)c))
        c++;
    return c;
}

void class_slots_take(struct class_slots *r, enum priority_class c, size_t n)
{
    r->free = class_slots_less(r->free, n);
    r->kept[c] = class_slots_less(r->kept[c], n);
}

/* The highest class is above every other: a place that stays free for it counts for all of them. */
struct class_slots class_slots_limit(const struct class_slots *r, size_t max)
{
    struct class_slots part = *r;
    size_t beyond = class_slots_less(r->free, max);
    part.free -= beyond;
    for (int c = CLASS_HIGH; c >= CLASS_LOW; c--) {
        size_t fewer = min_of(part.kept[c], beyond);
        part.kept[c] -= fewer;
        beyond -= fewer;
    }
    return part;
}

/* A part may keep more than its places. Then it serves the lower classes first, which leaves the most for those that
 * more classes respect. */
struct class_slots class_slots_without(const struct class_slots *r, const struct class_slots *part)
{
    struct class_slots left = *r;
    size_t places = min_of(r->free, part->free);
    left.free -= places;
    for (int c = 0; c < CLASSES; c++) {
        size_t fewer = min_of(min_of(part->kept[c], r->kept[c]), places);
        left.kept[c] -= fewer;
        places -= fewer;
    }
    return left;
}
