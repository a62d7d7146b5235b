#pragma once
/* store/common/reading.h - what readers of the SQL stores have in common: which index a list goes by, and how they say no. */
#include "port/store.h"

/* What a list walks down, by id, asking each row whether it is wanted. */
enum list_walk {
    WALK_ALL, /* every task there is */
    WALK_PARENT,
    WALK_CALENDAR, /* not over yet */
    WALK_NAME,
    WALK_WAITING, /* for a slot */
    WALK_CAUSE,   /* dead letters of one cause */
    WALK_FAILED,
    WALK_TYPE,
    WALK_RECURRING,
    WALK_COUNT
};

/* The walk that leaves least to visit. */
enum list_walk list_walk_of(const struct task_filter *f);
bool name_is_prefix(struct str name); /* of a filter: it ends in '*' */

enum {
    LIST_VISIT_MAX = 100000, /* behind so many rows a page ends, however few were found, with `more` */
    COUNT_SLOW_MAX = 10000   /* how far is counted where counting is slow */
};

enum err reader_not_found(const char *what, struct error *e);
enum err reader_no_room(struct error *e);
