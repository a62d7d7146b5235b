#pragma once
/* core/task/fingerprint.h - groups failures by cause: dead letters with the same cause have the same fingerprint. */
#include "core/task/task.h"

enum { FINGERPRINT_TEXT = 16, PLACE_MAX = 200 };

/* Hexadecimal digits, or empty. */
struct fingerprint {
    char text[FINGERPRINT_TEXT + 1];
};

/* The place that a task calls, without the parts that differ from task to task. For a URL: scheme, host, port and
 * the path with ids left out (numbers, UUIDs, long hexadecimal), no query. For other targets: broker and
 * destination, program, queue or workflow. Lives in the arena, at most PLACE_MAX bytes; empty if there is none or
 * the arena is full. */
struct str fingerprint_place(const struct task *t, struct arena *a);

/* Computed from target, place, HTTP status and error; numbers and ids in the error's text are left out. The same on
 * every machine. */
struct fingerprint fingerprint_of(enum target_kind target, struct str place, int http_status, struct str error);
