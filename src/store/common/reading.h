#pragma once
/* store/common/reading.h - common parts of the SQL stores' readers: the index that a list uses, limits, error
 * sentences. */
#include "port/store.h"

/* The index that a list scans, by id. Every row that the scan visits is checked against the rest of the filter. */
enum list_walk {
    WALK_ALL, /* all tasks */
    WALK_PARENT,
    WALK_CALENDAR, /* RECURRING tasks of a calendar that are not final */
    WALK_NAME,     /* without occurrences: they have the name of their recurring task */
    WALK_WAITING,  /* BLOCKED tasks of one slot */
    WALK_CAUSE,    /* dead letters of one cause that are not resolved */
    WALK_FAILED,
    WALK_TYPE,
    WALK_RECURRING,
    WALK_COUNT
};

/* The scan that visits the fewest rows. */
enum list_walk list_walk_of(const struct task_filter *f);
bool name_is_prefix(struct str name); /* the name of a filter: it ends in '*' */

enum {
    LIST_VISIT_MAX = 100000, /* a page ends after so many visited rows, with `more`, even if few matched */
    COUNT_SLOW_MAX = 10000   /* the highest count returned where counting is slow */
};

/* A place in a list that is not ordered by id, in the form of an id. Nil: the beginning. */
struct uuid reader_place(int64_t at, int64_t skip);
void reader_place_read(struct uuid place, int64_t *ret_at, int64_t *ret_skip);

/* Adds a definition to a page of at most `max`. *ret_has_room false: the arena is full, and the page ends before it. */
enum err definition_page_add(struct definition_page *page, const struct definition *d, size_t max, struct arena *a,
                             bool *ret_has_room, struct error *e) must_use;
/* Adds task i of at most `max` to a page, if it has a target_config. *ret_has_room false: the arena is full, and the
 * page ends before this task. */
enum err sealed_page_add(struct sealed_page *page, const struct task *t, size_t i, size_t max, struct arena *a,
                         bool *ret_has_room, struct error *e) must_use;

/* Copies tasks into the arena, as a result; their texts are there already. */
enum err reader_copy_tasks(const struct task *v, size_t n, struct arena *a, struct tasks *ret,
                           struct error *e) must_use;

enum err reader_not_found(const char *what, struct error *e);
enum err reader_no_room(struct error *e);
