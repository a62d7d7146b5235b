#pragma once
/* store/common/sql_states.h - the numbers of task states, for use in SQL text.
 *
 * Column tasks.state holds the number of enum task_state. The stores concatenate these literals into their SQL, so that
 * a statement names its states: "WHERE state = " SQL_RUNNING. The numbers are stored data and part of index
 * definitions: if enum task_state changes them, the build stops here. */
#include "core/task/task.h"

#define SQL_SCHEDULED "0"
#define SQL_BLOCKED   "1"
#define SQL_PAUSED    "2"
#define SQL_RUNNING   "3"
#define SQL_COMPLETED "4"
#define SQL_FAILED    "5"
#define SQL_CANCELLED "6"
#define SQL_SKIPPED   "7"
#define SQL_EXPIRED   "8"

/* task_shown_state of a row of tasks at the time of parameter `at`; if that is 0, the stored state. */
#define SQL_SHOWN_STATE(at)                                                                                            \
    "(CASE WHEN " at " = 0 OR state NOT IN (" SQL_SCHEDULED ", " SQL_RUNNING ") THEN state "                           \
    "WHEN (links & 256) <> 0 THEN " SQL_BLOCKED " WHEN (links & 32) <> 0 THEN "                                        \
    "CASE WHEN run_id IS NOT NULL AND (links & 1024) <> 0 AND due_ms > " at " THEN " SQL_SCHEDULED                     \
    " ELSE " SQL_RUNNING " END WHEN state = " SQL_RUNNING " AND due_ms > " at " THEN " SQL_SCHEDULED                   \
    " ELSE state END)"

_Static_assert(TASK_AWAITS == 256 && TASK_OPENED == 32 && TASK_AGAIN == 1024, "SQL_SHOWN_STATE names them by number");
_Static_assert(TASK_SCHEDULED == 0, "SQL_SCHEDULED is the number of TASK_SCHEDULED");
_Static_assert(TASK_BLOCKED == 1, "SQL_BLOCKED is the number of TASK_BLOCKED");
_Static_assert(TASK_PAUSED == 2, "SQL_PAUSED is the number of TASK_PAUSED");
_Static_assert(TASK_RUNNING == 3, "SQL_RUNNING is the number of TASK_RUNNING");
_Static_assert(TASK_COMPLETED == 4, "SQL_COMPLETED is the number of TASK_COMPLETED");
_Static_assert(TASK_FAILED == 5, "SQL_FAILED is the number of TASK_FAILED");
_Static_assert(TASK_CANCELLED == 6, "SQL_CANCELLED is the number of TASK_CANCELLED");
_Static_assert(TASK_SKIPPED == 7, "SQL_SKIPPED is the number of TASK_SKIPPED");
_Static_assert(TASK_EXPIRED == 8, "SQL_EXPIRED is the number of TASK_EXPIRED");

/* task_has_fired is false. */
#define SQL_NEVER_FIRED "attempts = 0 AND losses = 0 AND started_ms = 0"
