#pragma once
/* core/sharing/class_slots.h - how many of n places each priority class may take.
 *
 * A class that uses less than a tenth of the places keeps the rest of its tenth free from lower classes, so that a task
 * of a higher class finds a place at once. A class that uses its tenth keeps nothing: nobody starves. With fewer than
 * ten places nothing is kept. */
#include "core/task/task.h"

struct class_slots {
    size_t free;
    size_t kept[CLASSES]; /* of the free places: those that no class below takes. Of the lowest class: 0 */
};

/* running: by class; more than n in all leaves nothing free. */
struct class_slots class_slots_of(size_t n, const size_t running[CLASSES]);

/* How many tasks of a class fit. */
size_t class_slots_for(const struct class_slots *r, enum priority_class c);
/* The lowest class that has room; CLASSES: none has. If a class has room, every higher one has. */
int class_slots_lowest(const struct class_slots *r);

/* n tasks of a class take their places. */
void class_slots_take(struct class_slots *r, enum priority_class c, size_t n);
/* The part of the room that at most max tasks fill. The places beyond them stay free, so they are the first that are
 * kept. */
struct class_slots class_slots_limit(const struct class_slots *r, size_t max);
/* The room that is left beside a part that is given away. */
struct class_slots class_slots_without(const struct class_slots *r, const struct class_slots *part);
