/* The state is global to the process, so that failpoints work in every thread and layer without passing a pointer. It
 * is written at start, before other threads exist; afterwards only `left` changes. */
#include "base/failpoint.h"

#include <assert.h>
#include <signal.h>
#include <stdint.h>

#include "base/sentence.h"

static const struct failpoint_place {
    const char *name;
    bool follows_error;
} places[] = {
#define X(name, follows_error) { #name, follows_error },
    FAILPOINT_MAP(X)
#undef X
};

static struct {
    const struct failpoint_place *place;
    bool kills;
    atomic_int_least64_t left; /* passes until the action */
} state;

atomic_bool failpoint_armed;

static const struct failpoint_place *failpoint_find(struct str name)
{
    for (size_t i = 0; i < array_count(places); i++)
        if (str_eq(name, str_from(places[i].name)))
            return &places[i];
    return NULL;
}

static enum err failpoint_refuse_unknown(struct str name, struct error *e)
{
    struct suggest s;
    char quoted[QUOTE_TEXT];
    quote_text(name, quoted);
    suggest_init(&s, name);
    for (size_t i = 0; i < array_count(places); i++)
        suggest_offer(&s, str_from(places[i].name));
    if (s.closest.p)
        return error_set(e, ERR_INVALID, "no failpoint %s; did you mean '" STR_FMT "'?", quoted, STR_ARG(s.closest));
    return error_set(e, ERR_INVALID, "no failpoint %s", quoted);
}

enum err failpoint_arm(struct str spec, struct error *e)
{
    struct str name = S(""), action = S(""), rest = spec;
    int64_t count = 1;
    if (!str_cut(&rest, ':', &name)) {
        atomic_store(&failpoint_armed, false);
        return ERR_OK;
    }
    const struct failpoint_place *place = failpoint_find(name);
    if (!place)
        return failpoint_refuse_unknown(name, e);
    (void)str_cut(&rest, ':', &action);
    bool kills = str_eq(action, S("kill"));
    if (!kills && !str_eq(action, S("error")))
        return error_set(e, ERR_INVALID, "the action of a failpoint must be kill or error: '%s:kill'", place->name);
    if (!kills && !place->follows_error)
        return error_set(e, ERR_INVALID, "failpoint '%s' supports only the action kill", place->name);
    if (rest.n && !str_to_i64(rest, 1, INT64_MAX, &count))
        return error_set(e, ERR_INVALID, "the count of a failpoint must be a number of at least 1: '%s:kill:3'",
                         place->name);
    state.place = place;
    state.kills = kills;
    atomic_store(&state.left, count);
    atomic_store(&failpoint_armed, true);
    return ERR_OK;
}

bool failpoint_pass(const char *name)
{
    assert(failpoint_find(str_from(name)));
    if (strcmp(name, state.place->name) != 0 || atomic_fetch_sub(&state.left, 1) != 1)
        return false;
    if (state.kills)
        raise(SIGKILL);
    return true;
}
