#include "core/sharing/class_room.h"

enum { KEPT_PART = 10 }; /* one place in so many is kept for a class */

static size_t class_room_less(size_t n, size_t by)
{
    return n - min_of(n, by);
}

struct class_room class_room_of(size_t n, const size_t running[CLASSES])
{
    struct class_room r = { .free = n };
    for (int c = 0; c < CLASSES; c++) {
        r.free = class_room_less(r.free, running[c]);
        r.kept[c] = c == CLASS_LOW ? 0 : class_room_less(n / KEPT_PART, running[c]);
    }
    return r;
}

size_t class_room_for(const struct class_room *r, enum priority_class c)
{
    size_t room = r->free;
    for (int d = (int)c + 1; d < CLASSES; d++)
        room = class_room_less(room, r->kept[d]);
    return room;
}

int class_room_lowest(const struct class_room *r)
{
    int c = CLASS_LOW;
    while (c < CLASSES && !class_room_for(r, (enum priority_class)c))
        c++;
    return c;
}

void class_room_take(struct class_room *r, enum priority_class c, size_t n)
{
    r->free = class_room_less(r->free, n);
    r->kept[c] = class_room_less(r->kept[c], n);
}

/* The highest class is above every other: a place that stays free for it counts for all of them. */
struct class_room class_room_limit(const struct class_room *r, size_t max)
{
    struct class_room part = *r;
    size_t beyond = class_room_less(r->free, max);
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
struct class_room class_room_without(const struct class_room *r, const struct class_room *part)
{
    struct class_room left = *r;
    size_t places = min_of(r->free, part->free);
    left.free -= places;
    for (int c = 0; c < CLASSES; c++) {
        size_t fewer = min_of(min_of(part->kept[c], r->kept[c]), places);
        left.kept[c] -= fewer;
        places -= fewer;
    }
    return left;
}
