#pragma once
/* api/server/exchange.h - the API as the handler of the HTTP server: from the head of a request to its answer. The
 * callbacks run on the HTTP thread of the connection. Their context is the api_server. */
#include "http/server.h"

extern const struct http_handler exchange_handler;
