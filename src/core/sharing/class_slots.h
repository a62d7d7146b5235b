#pragma once
/* core/sharing/class_room.h - how many of n places each priority class may take.
 *
 * A class that uses less than a tenth of the places keeps the rest of its tenth free from lower classes, so that a task
 * of a higher class finds a place at once. A class that uses its tenth keeps nothing: nobody starves. With fewer than
 * ten places nothing is kept. */
#include "core/task/task.h"

struct class_room {
    size_t free;
    size_t kept[CLASSES]; /* of the free places: those that no class below takes. Of the lowest class: 0 */
};

/* running: by class; more than n in all leaves nothing free. */
struct class_room class_room_of(size_t n, const size_t running[CLASSES]);

/* How many tasks of a class fit. */
size_t class_room_for(const struct class_room *r, enum priority_class c);
/* The lowest class that has room; CLASSES: none has. If a class has room, every higher one has. */
int class_room_lowest(const struct class_room *r);

/* n tasks of a class take their places. */
void class_room_take(struct class_room *r, enum priority_class c, size_t n);
/* The part of the room that at most max tasks fill. The places beyond them stay free, so they are the first that are
 * kept. */
struct class_room class_room_limit(const struct class_room *r, size_t max);
/* The room that is left beside a part that is given away. */
struct class_room class_room_without(const struct class_room *r, const struct class_room *part);
