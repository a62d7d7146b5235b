#pragma once
/* api/server/negotiate.h - the headers by which a client says which answers it takes (RFC 9110, sections 12.5, 13.1).
 *
 * Pure functions; any thread. An empty header is one that was not sent. */
#include "base/str.h"

/* Whether Accept allows a media type, such as application/json. Of its parameters, only q is read. */
bool accept_allows(struct str accept, struct str type);

/* The same, but of a type that Accept names: a wildcard does not count. */
bool accept_names(struct str accept, struct str type);
/* /metrics, for a scraper that asks for it */
#define OPENMETRICS      "application/openmetrics-text"
#define OPENMETRICS_TYPE OPENMETRICS "; version=1.0.0; charset=utf-8"

bool accept_encoding_allows_gzip(struct str accept_encoding); /* false without the header */

/* Whether If-None-Match has the tag, or is '*'. The tag with quotes. The gzip form of a resource has the tag "…-gzip";
 * both forms match each other, as in a weak comparison. */
bool if_none_match_has(struct str if_none_match, struct str etag);
