/* The state of the process, not of a module: whoever kills it must reach every thread and need no pointer to be handed
 * through all layers. It is written at start, before there are threads; afterwards only `left` changes. */
#include "base/failpoint.h"

#include <assert.h>
#include <signal.h>
#include <stdint.h>

#include "base/sentence.h"

static const struct place {
    const char *name;
    bool follows_error;
} places[] = {
#define X(name, follows_error) { #name, follows_error },
    FAILPOINT_MAP(X)
#undef X
};

static struct {
    const struct place *place;
    bool kills;
    atomic_int_least64_t left; /* passes until it acts */
} state;

atomic_bool failpoint_armed;

static const struct place *find_place(struct str name)
{
    for (size_t i = 0; i < array_count(places); i++)
        if (str_eq(name, str_from(places[i].name)))
            return &places[i];
    return NULL;
}

static enum err unknown_place(struct str name, struct error *e)
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
    const struct place *place = find_place(name);
    if (!place)
        return unknown_place(name, e);
    (void)str_cut(&rest, ':', &action);
    bool kills = str_eq(action, S("kill"));
    if (!kills && !str_eq(action, S("error")))
        return error_set(e, ERR_INVALID, "the action of a failpoint is kill or error: '%s:kill'", place->name);
    if (!kills && !place->follows_error)
        return error_set(e, ERR_INVALID, "failpoint '%s' knows no error, only kill", place->name);
    if (rest.n && !str_to_i64(rest, 1, INT64_MAX, &count))
        return error_set(e, ERR_INVALID, "the count of a failpoint is a number from 1 on: '%s:kill:3'", place->name);
    state.place = place;
    state.kills = kills;
    atomic_store(&state.left, count);
    atomic_store(&failpoint_armed, true);
    return ERR_OK;
}

bool failpoint_pass(const char *name)
{
    assert(find_place(str_from(name)));
    if (strcmp(name, state.place->name) != 0 || atomic_fetch_sub(&state.left, 1) != 1)
        return false;
    if (state.kills)
        raise(SIGKILL);
    return true;
}
