/* Fences never go back (core/task/fence.h): rows `fence_floor` and `identity` of the table `cluster`. A standby that
 * was promoted, a database that was recovered to a point in time or restored from a dump may lack the latest claims.
 * Each is known by its system identifier, its timeline and its database. */
#include "core/task/fence.h"

#include "store/postgres/internal.h"

#define TEXT_OF(column) "convert_from(" column ", 'UTF8')"

/* $1: the floor, if there is none yet. */
static const struct pg_statement raise = {
    "fences_raise", "INSERT INTO cluster (name, value) VALUES ('fence_floor', convert_to($1::bigint::text, 'UTF8')) "
                    "ON CONFLICT (name) DO UPDATE SET value = convert_to(greatest(" TEXT_OF(
                        "cluster.value") "::bigint + 65536, $1)::text, 'UTF8')"
};
_Static_assert(FENCE_STEP == 65536, "as in `raise`");

static const struct pg_statement identify = {
    "fences_identify",
    "SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()), "
    "left(pg_walfile_name(pg_current_wal_lsn()), 8), (SELECT oid FROM pg_database WHERE datname = current_database())), "
    "coalesce((SELECT " TEXT_OF("value") " FROM cluster WHERE name = 'identity'), '')"
};
/* $1: new, $2: old. Of several nodes that find the same change, one makes it. */
static const struct pg_statement change_identity = { "fences_change",
                                                     "UPDATE cluster SET value = convert_to($1, 'UTF8') "
                                                     "WHERE name = 'identity' AND value = convert_to($2, 'UTF8')" };
static const struct pg_statement note_identity = {
    "fences_note",
    "INSERT INTO cluster (name, value) VALUES ('identity', convert_to($1, 'UTF8')) ON CONFLICT DO NOTHING"
};

enum err pg_fences_raise(struct pg_conn *c, struct pg_params *p, int64_t now_ms, struct error *e)
{
    pg_params_reset(p);
    pg_add_i64(p, fence_raise_floor(0, now_ms));
    return pg_run(c, &raise, p, NULL, e);
}

/* First the floor, then the identity: if the second is not written, the floor rises once more. */
static enum err pg_fences_compare(struct pg_conn *c, struct pg_params *p, const struct pg_result *r, struct error *e)
{
    struct str is = pg_text(r, 0, 0), was = pg_text(r, 0, 1);
    if (str_eq(is, was))
        return ERR_OK;
    if (was.n && pg_fences_raise(c, p, clock_wall_ms(c->clock), e))
        return e->code;
    pg_params_reset(p);
    pg_add_text(p, is);
    if (was.n)
        pg_add_text(p, was);
    return pg_run(c, was.n ? &change_identity : &note_identity, p, NULL, e);
}

enum err pg_fences_check(struct pg_conn *c, struct error *e)
{
    struct pg_params p;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_init(&p);
    enum err rc = pg_run(c, &identify, NULL, &r, e);
    if (!rc)
        rc = pg_fences_compare(c, &p, &r, e);
    else if (c->pg && PQstatus(c->pg) == CONNECTION_OK) /* a service that does not let us ask: the heartbeats notice */
        rc = pg_conn_ready(c, e);
    pg_params_release(&p);
    return rc;
}
