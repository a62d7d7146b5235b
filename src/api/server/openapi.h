#pragma once
/* api/server/openapi.h - openapi.json, the description of the API, embedded in the binary. Any thread. */
#include "base/str.h"

struct str openapi_json(void);
