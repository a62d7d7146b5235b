/* The state is global to the process, so that failpoints work in every thread and layer without passing a pointer. It
 * is written at start, before other threads exist; afterwards only `left` changes. */
#include "base/failpoint.h"

#include <assert.h>
#include <signal.h>
#include <stdint.h>

#include "base/duration.h"
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
    atomic_bool stalls;
    struct failpoint_stall stall;
} state;

atomic_bool failpoint_armed;

enum { STALL_PERIOD_MAX_MS = 3600000, NS_PER_MS = 1000000 };
#define STALL_PREFIX S("stall=")

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

static void failpoint_disarm(void)
{
    atomic_store(&failpoint_armed, false);
    atomic_store(&state.stalls, false);
}

/* ---- stalls ---- */

enum err failpoint_parse_stall(struct str text, struct failpoint_stall *ret, struct error *e)
{
    struct str length = S(""), rest = text;
    struct failpoint_stall s = { 0 };
    if (!str_cut(&rest, '/', &length) || duration_parse(length, &s.length_ms, NULL) ||
        duration_parse(rest, &s.period_ms, NULL) || s.length_ms == 0 || s.length_ms >= s.period_ms ||
        s.period_ms > STALL_PERIOD_MAX_MS)
        return error_set(e, ERR_INVALID, "must be a length and a longer period of at most 1h, such as 900ms/4s");
    *ret = s;
    return ERR_OK;
}

int64_t failpoint_stall_left_ns(struct failpoint_stall s, int64_t steady_ns)
{
    int64_t into_ns = steady_ns % (s.period_ms * NS_PER_MS);
    return max_of(s.length_ms * NS_PER_MS - into_ns, (int64_t)0);
}

int64_t failpoint_commit_wait_ns(int64_t steady_ns)
{
    return atomic_load_explicit(&state.stalls, memory_order_relaxed) ? failpoint_stall_left_ns(state.stall, steady_ns)
                                                                     : 0;
}

static enum err failpoint_arm_stall(struct str text, struct error *e)
{
    struct failpoint_stall s;
    if (failpoint_parse_stall(text, &s, NULL))
        return error_set(
            e, ERR_INVALID,
            "the stall of a failpoint must be a length and a longer period of at most 1h: 'stall=900ms/4s'");
    failpoint_disarm();
    state.stall = s;
    atomic_store(&state.stalls, true);
    return ERR_OK;
}

/* ---- named places ---- */

enum err failpoint_arm(struct str spec, struct error *e)
{
    struct str name = S(""), action = S(""), rest = spec;
    int64_t count = 1;
    if (str_starts(spec, STALL_PREFIX))
        return failpoint_arm_stall(str_sub(spec, STALL_PREFIX.n, spec.n), e);
    if (!str_cut(&rest, ':', &name)) {
        failpoint_disarm();
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
    failpoint_disarm();
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
