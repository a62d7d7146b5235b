#include "api/auth/scopes.h"

#include <assert.h>

static const char *const scope_names[] = { [SCOPE_PUBLIC] = "public",
                                           [SCOPE_ANY] = "any",
#define X(id, name) [SCOPE_##id] = name,
                                           SCOPE_MAP(X)
#undef X
};

const char *scope_name(enum scope s)
{
    assert((size_t)s < array_count(scope_names) && scope_names[s]);
    return scope_names[s];
}

uint32_t scopes_parse(struct str words)
{
    uint32_t scopes = 0;
    struct str rest = words, word;
    while (str_cut(&rest, ' ', &word))
        for (size_t s = SCOPE_ANY + 1; s < array_count(scope_names); s++)
            if (str_eq(word, str_from(scope_names[s])))
                scopes |= 1U << s;
    return scopes;
}

void scopes_names(struct buf *out)
{
    for (size_t s = SCOPE_ANY + 1; s < array_count(scope_names); s++)
        buf_printf(out, "%s%s", s > SCOPE_ANY + 1 ? ", " : "", scope_names[s]);
}
