#pragma once
/* port/event_message.h - the wire format of events: versioned JSON (docs/EVENTS.md), the same for every adapter. */
#include "base/json/jsonw.h"
#include "port/events.h"

enum { EVENT_TEXT_MAX = 4 << 20 }; /* outputs are capped far below this */

void event_write(struct jw *w, const struct event *e); /* one object, without the sequence */

/* Texts are copied into the arena. ERR_CORRUPT: it cannot be read, now or later. ERR_LIMIT: the arena is full. */
enum err event_read(struct arena *a, struct str text, struct event *ret, struct error *e) must_use;
