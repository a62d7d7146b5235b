#pragma once
/* api/server/exchange.h - libmicrohttpd's calls for one request: its line, its headers, its body piece by piece, its end. */
#include <microhttpd.h>

void *exchange_begin(void *server, const char *uri, struct MHD_Connection *connection);
enum MHD_Result exchange_handle(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *data, size_t *size, void **request);
/* Its calls when a connection begins and ends (connection.c). */
void connections_notify(void *server, struct MHD_Connection *connection, void **context,
                        enum MHD_ConnectionNotificationCode code);

void exchange_end(void *server, struct MHD_Connection *connection, void **request, enum MHD_RequestTerminationCode why);
