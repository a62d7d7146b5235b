#include "core/flow/pointer.h"

#include <assert.h>

static enum err pointer_check_escape(struct str p, size_t at, struct error *e)
{
    if (at + 1 < p.n && (p.p[at + 1] == '0' || p.p[at + 1] == '1'))
        return ERR_OK;
    return error_set(e, ERR_INVALID, "has a '~' at position %zu that is not followed by 0 or 1; write '~' as ~0",
                     at + 1);
}

enum err pointer_check(struct str pointer, struct error *e)
{
    if (pointer.n > POINTER_BYTES_MAX)
        return error_set(e, ERR_INVALID, "must be at most %d bytes long, not %zu", POINTER_BYTES_MAX, pointer.n);
    if (pointer.n && pointer.p[0] != '/')
        return error_set(e, ERR_INVALID, "must begin with '/'");
    size_t tokens = 0;
    for (size_t i = 0; i < pointer.n; i++) {
        tokens += pointer.p[i] == '/';
        if (pointer.p[i] == '\0')
            return error_set(e, ERR_INVALID, "must not contain a NUL character (at position %zu)", i + 1);
        if (pointer.p[i] == '~' && pointer_check_escape(pointer, i, e))
            return ERR_INVALID;
    }
    if (tokens > POINTER_TOKENS_MAX)
        return error_set(e, ERR_INVALID, "must have at most %d levels, not %zu", POINTER_TOKENS_MAX, tokens);
    return ERR_OK;
}

bool pointer_next(struct str *rest, char out[POINTER_BYTES_MAX + 1], struct str *ret_token)
{
    if (rest->n == 0)
        return false;
    assert(rest->p[0] == '/' && rest->n <= POINTER_BYTES_MAX);
    size_t n = 0, i = 1;
    for (; i < rest->n && rest->p[i] != '/'; i++) {
        bool escape = rest->p[i] == '~' && i + 1 < rest->n;
        out[n++] = !escape ? rest->p[i] : rest->p[++i] == '1' ? '/' : '~';
    }
    out[n] = '\0';
    *ret_token = (struct str){ out, n };
    *rest = str_sub(*rest, i, rest->n);
    return true;
}

static json_t *pointer_element(json_t *array, struct str token)
{
    int64_t index;
    bool is_plain = token.n > 0 && is_digit(token.p[0]) && (token.n == 1 || token.p[0] != '0');
    return is_plain && str_to_i64(token, 0, INT32_MAX, &index) ? json_array_get(array, (size_t)index) : NULL;
}

json_t *pointer_get(struct str pointer, json_t *root)
{
    char text[POINTER_BYTES_MAX + 1];
    struct str token;
    json_t *found = root;
    while (found && pointer_next(&pointer, text, &token))
        found = json_is_array(found) ? pointer_element(found, token) : json_object_get(found, token.p);
    return found;
}
