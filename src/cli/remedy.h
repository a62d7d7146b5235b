#pragma once
/* cli/remedy.h - the sentences of the API name requests as remedies. Here they become commands. */
#include "base/buf.h"

/* Appends the sentence, with commands in place of requests and fields. */
void remedy_write(struct str sentence, struct buf *out);
