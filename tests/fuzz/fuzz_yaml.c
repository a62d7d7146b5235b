/* YAML files, which users write. What is accepted is JSON, within the limit, and no deeper than JSON may be. */
#include <stdlib.h>

#include "base/json/json.h"
#include "cli/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { JSON_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = { (const char *)data, size };
    struct error e = { 0 };
    struct json_doc doc;
    size_t line = 0;
    cleanup_with(buf_release) struct buf json;
    buf_init(&json, JSON_MAX);
    if (yaml_to_json(text, &json, &line, &e)) {
        if (!e.text[0])
            abort();
        return 0;
    }
    if (json.full)
        abort();
    if (json_parse(buf_str(&json), &doc, &e) == ERR_OK)
        json_doc_release(&doc);
    else if (!strstr(e.text, "number that is too large") && !strstr(e.text, "\\u0000") &&
             !strstr(e.text, "NUL byte in object key"))
        abort();
    return 0;
}
