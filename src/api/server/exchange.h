#pragma once
/* api/server/exchange.h - the callbacks of libmicrohttpd for one request: its request line, its headers, its body piece
 * by piece, its end. All run on the HTTP thread of the connection; only exchange_on_completed and connection_on_notify
 * may also run on the thread that stops the server. */
#include <microhttpd.h>

void *exchange_on_uri(void *server, const char *uri, struct MHD_Connection *connection);
enum MHD_Result exchange_on_access(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                                   const char *version, const char *data, size_t *size, void **request);
/* A connection was accepted or closed (connection.c). */
void connection_on_notify(void *server, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code);

void exchange_on_completed(void *server, struct MHD_Connection *connection, void **request,
                           enum MHD_RequestTerminationCode why);
