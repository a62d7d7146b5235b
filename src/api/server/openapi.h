#pragma once
/* api/server/openapi.h - the API's description of itself, openapi.json, as it is embedded in the binary. */
#include "base/str.h"

struct str openapi_json(void);
