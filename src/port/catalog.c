#include "port/catalog.h"

#include "base/json/json.h"

bool catalog_job_is_over(struct str doc)
{
    struct json_cursor c = { .text = doc };
    struct str name, value;
    while (json_next(&c, &name, &value))
        if (str_eq(name, S("state")))
            return !str_eq(value, S("\"RUNNING\""));
    return false;
}
