#include "api/server/openapi.h"

#include "base/embed.h"

extern const struct embedded_file openapi_files[]; /* generated from openapi.json by tools/embed */

struct str openapi_json(void)
{
    return openapi_files[0].text;
}
