/* A path is split at '.' and '[': each step goes one level down, by name or by index. */
#include "base/duration.h"
#include "base/json/json.h"
#include "base/rfc3339.h"

enum { NAME_MAX_BYTES = 128 };
#define EXACT_MAX 9007199254740992.0 /* 2^53: a double represents every integer up to it */

static const json_t *json_at_member(const json_t *object, struct str name)
{
    char text[NAME_MAX_BYTES];
    if (name.n >= sizeof text)
        return NULL;
    memcpy(text, name.p, name.n);
    text[name.n] = '\0';
    return json_object_get(object, text);
}

/* step is "name", "name[2]" or "[2]". */
static const json_t *json_at_step(const json_t *at, struct str step)
{
    size_t bracket = str_find(step, '[', 0);
    const json_t *found = bracket > 0 ? json_at_member(at, str_sub(step, 0, bracket)) : at;
    struct str rest = str_sub(step, bracket, step.n), index;
    while (found && str_cut(&rest, ']', &index)) {
        int64_t i;
        if (!str_starts(index, S("[")) || !str_to_i64(str_sub(index, 1, index.n), 0, INT32_MAX, &i))
            return NULL;
        found = json_array_get(found, (size_t)i);
    }
    return found;
}

const json_t *json_at(const json_t *root, const char *path)
{
    const json_t *found = root;
    struct str rest = str_from(path), step;
    while (found && str_cut(&rest, '.', &step))
        found = json_at_step(found, step);
    return found;
}

struct str json_text_at(const json_t *root, const char *path)
{
    const json_t *v = json_at(root, path);
    return (struct str){ json_string_value(v), json_string_length(v) };
}

int64_t json_i64_at(const json_t *root, const char *path, int64_t otherwise)
{
    const json_t *v = json_at(root, path);
    bool fits = json_is_real(v) && json_real_value(v) > -EXACT_MAX && json_real_value(v) < EXACT_MAX;
    if (fits)
        return (int64_t)json_real_value(v);
    return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

int64_t json_seconds_at(const json_t *root, const char *path)
{
    double ms = json_number_value(json_at(root, path)) * 1000;
    return ms > 0 && ms <= (double)DURATION_MAX_MS ? (int64_t)(ms + 0.5) : 0;
}

bool json_time_at(const json_t *root, const char *path, int64_t *ret_ms)
{
    struct str text = json_text_at(root, path);
    struct error ignored;
    return text.p && rfc3339_parse(text, ret_ms, &ignored) == ERR_OK;
}

size_t json_count_at(const json_t *root, const char *path)
{
    return json_array_size(json_at(root, path));
}
