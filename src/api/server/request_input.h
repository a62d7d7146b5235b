#pragma once
/* api/server/request_input.h - the body and the query of a request, for handlers that take an object or nothing. The
 * thread that owns the request. */
#include "api/server/request.h"
#include "base/json/json.h"

/* The body as a JSON object; an empty body is {}. */
enum err request_read_object(struct request *q, struct json_doc *ret, struct error *e) must_use;
enum err request_check_no_body(struct request *q, struct error *e) must_use; /* nothing, or {} */

/* For routes without query parameters: refuses any parameter. False: the request is answered. */
bool request_check_no_query(struct request *q);
