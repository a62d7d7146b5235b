#pragma once
/* server/planner_threads.h - plans for the node (port/planner.h), made on threads that read the store. */
#include "platform/loop_uv.h"
#include "workflow/planner.h"

enum { PLANNER_THREADS = 2 };

struct planner_threads;

/* `done` of a plan is called on the loop's thread. The definitions are shared with others. secrets: NULL:
 * there is no key file. */
enum err planner_threads_new(struct store *store, struct loop *loop, struct definition_cache *definitions,
                             const struct secrets *secrets, struct planner_threads **ret, struct error *e) must_use;
void planner_threads_free(struct planner_threads *t); /* no plan is in flight; NULL is fine */
struct planner *planner_threads_planner(struct planner_threads *t);
