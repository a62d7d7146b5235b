/* Recursion is limited by depth_max, which is at most JW_DEPTH_MAX. */
#include <assert.h>

#include "base/json/json.h"
#include "base/json/jsonw.h"

static bool jw_json_array(struct jw *w, json_t *v, int depth_max) // NOLINT(misc-no-recursion)
{
    jw_array(w);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!jw_json(w, json_array_get(v, i), depth_max))
            return false;
    jw_array_end(w);
    return true;
}

static bool jw_json_object(struct jw *w, json_t *v, int depth_max) // NOLINT(misc-no-recursion)
{
    jw_object(w);
    const char *name;
    json_t *member;
    json_object_foreach (v, name, member) {
        jw_key(w, name);
        if (!jw_json(w, member, depth_max))
            return false;
    }
    jw_object_end(w);
    return true;
}

bool jw_json(struct jw *w, json_t *v, int depth_max) // NOLINT(misc-no-recursion)
{
    assert(depth_max <= JW_DEPTH_MAX);
    switch (json_typeof(v)) {
    case JSON_OBJECT: return w->depth < depth_max && jw_json_object(w, v, depth_max);
    case JSON_ARRAY: return w->depth < depth_max && jw_json_array(w, v, depth_max);
    case JSON_STRING: jw_str(w, (struct str){ json_string_value(v), json_string_length(v) }); break;
    case JSON_INTEGER: jw_i64(w, json_integer_value(v)); break;
    case JSON_REAL: jw_f64(w, json_real_value(v)); break;
    case JSON_TRUE:
    case JSON_FALSE: jw_bool(w, json_is_true(v)); break;
    case JSON_NULL: jw_null(w); break;
    }
    return true;
}
