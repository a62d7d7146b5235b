#pragma once
/* api/resource/calendar_reapply.h - a calendar has changed: the tasks that go by it are made to think again, as an edit of each would.
 *
 * The book has the new calendar already, so whoever plans from now on plans by it. Each task gets the next version, which refuses what
 * was planned by the old one, and a cursor that looks at every day from now on anew; what was spawned and has not fired is withdrawn.
 * A crash in between leaves the rest of them as they were: occurrences of the next seconds by the old calendar, and times that the new one
 * adds before the next known one; the same PUT again mends it. */
#include "api/server/request.h"

/* Tasks that go by a calendar and are not over. */
struct task_filter calendar_users(int32_t tenant, struct str calendar, size_t limit);

/* After the commit; ends in the answer that q has. */
enum handled calendar_reapply(struct request *q, struct str calendar);
