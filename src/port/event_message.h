#pragma once
/* port/event_message.h - an event as topics, streams and queues carry it: versioned JSON (docs/EVENTS.md), the same for every adapter. */
#include "base/json/jsonw.h"
#include "port/events.h"

enum { EVENT_TEXT_MAX = 4 << 20 }; /* no event is larger: outputs are capped far below */

void event_write(struct jw *w, const struct event *e); /* one object; its sequence is the adapter's and not in it */

/* Texts are copied into the arena. ERR_CORRUPT: not to be read, now or later; ERR_LIMIT: the arena is full. */
enum err event_read(struct arena *a, struct str text, struct event *ret, struct error *e) must_use;
