#pragma once
/* core/task/fingerprint.h - what failures have in common: the dead letters of one cause have one fingerprint (R3.9). */
#include "core/task/task.h"

enum { FINGERPRINT_TEXT = 16, PLACE_MAX = 200 };

/* Hexadecimal digits, or empty. */
struct fingerprint {
    char text[FINGERPRINT_TEXT + 1];
};

/* Where a task goes, without what differs from task to task: of a URL scheme, host, port and the path with ids in it left out (numbers, UUIDs, long
 * hexadecimal), no query; of other targets what comes next to it: broker and destination, program, queue, workflow. Lives in the
 * arena, at most PLACE_MAX bytes; empty when there is none to be seen, or the arena is full. */
struct str fingerprint_place(const struct task *t, struct arena *a);

/* Of target, place, HTTP status and error, numbers and the like in the error's text left out. The same on every machine. */
struct fingerprint fingerprint_of(enum target_kind target, struct str place, int http_status, struct str error);
