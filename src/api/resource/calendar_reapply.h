#pragma once
/* api/resource/calendar_reapply.h - after a calendar was changed, updates the tasks that use it, as an edit of each
 * task would.
 *
 * The catalog cache already has the new calendar, so the spawner uses it from now on. For each task:
 * - The version is incremented. This refuses whatever was planned with the old calendar.
 * - The cursor is computed again, so that every day from now on is checked against the new calendar.
 * - Occurrences that were spawned and have not fired are withdrawn.
 *
 * If the process dies halfway, the remaining tasks keep their old state: occurrences of the next seconds follow the old
 * calendar, and times that the new calendar adds before the next known time are missed. Sending the same PUT again
 * repairs this. */
#include "api/server/request.h"

/* A filter for the tasks that use a calendar and are not in a final state. Any thread. */
struct task_filter calendar_users(int32_t tenant, struct str calendar, size_t limit);

/* Call it after the commit. At its end the answer that q has is sent. The thread that owns the request; passes q on. */
enum handled calendar_reapply(struct request *q, struct str calendar);
