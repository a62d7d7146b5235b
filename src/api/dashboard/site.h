#pragma once
/* api/dashboard/site.h - the files of the dashboard, at /ui/. They travel in the binary, compressed (tools/embed).
 *
 * /ui/ is index.html, which is asked for again at each visit. It names the other files as /ui/HASH/path. HASH is a hash
 * of all files, so such an answer never changes, and a browser keeps it.
 *
 * All functions: any thread. */
#include "http/server.h"

struct request;

/* Answers with a short page. The text is not escaped. */
void site_refuse(struct request *q, int status, const char *text);

/* The headers of each answer that a browser shows: what its page may load, and who may embed it. */
void site_add_headers(struct http_answer *a);
