#pragma once
/* store/postgres/connection.h - a connection: statements with their parameters, results, rows, and the lanes that were
 * loaded.
 *
 * All parameters and results are binary. Statements work on sets: a statement takes one array for each column and
 * unnests them, so that one statement writes a thousand rows. Statements are sent in libpq's pipeline mode: pg_send
 * sends one without waiting, pg_get reads the results in the order of sending. A statement is prepared when a
 * connection first uses it. */
#include <libpq-fe.h>

#include "store/common/columns.h"
#include "store/common/lane_table.h"

/* ---- parameters (params.c) ---- */

enum { PG_PARAMS_MAX = 64 };

/* The types of parameters, and of the elements of array parameters. */
enum pg_type { PG_BOOL, PG_I16, PG_I32, PG_I64, PG_DOUBLE, PG_UUID, PG_BYTES, PG_TEXT };

/* The parameters of one statement, in order. The bytes are copied: the caller's values may go away after the call. */
struct pg_params {
    int n;
    Oid types[PG_PARAMS_MAX];
    size_t at[PG_PARAMS_MAX]; /* offsets in bytes; SIZE_MAX: NULL */
    int lengths[PG_PARAMS_MAX];
    struct buf bytes;
    size_t array_at; /* where the open array begins */
    int array_count;
    bool array_nulls;
    enum pg_type array_type;
    struct buf text; /* buffer for the JSON text of one column */
};

void pg_params_init(struct pg_params *p);
void pg_params_release(struct pg_params *p);
void pg_params_reset(struct pg_params *p);

void pg_add_bool(struct pg_params *p, bool v);
void pg_add_i32(struct pg_params *p, int32_t v);
void pg_add_i64(struct pg_params *p, int64_t v);
void pg_add_uuid(struct pg_params *p, struct uuid v); /* nil becomes NULL */
void pg_add_text(struct pg_params *p, struct str v);  /* empty becomes '', not NULL */
void pg_add_bytes(struct pg_params *p, struct str v);
void pg_add_null(struct pg_params *p, enum pg_type type);
/* The partitions as a bytea for get_bit(); a NULL pointer becomes NULL, which means all partitions. */
void pg_add_partitions(struct pg_params *p, const struct partitions *own);

/* Array parameters: call pg_array, then a pg_element_ function for each element, then pg_array_end. Empty PG_TEXT and
 * PG_BYTES elements become NULL only with pg_element_text_or_null. */
void pg_array(struct pg_params *p, enum pg_type type);
void pg_element_bool(struct pg_params *p, bool v);
void pg_element_i64(struct pg_params *p, int64_t v); /* for PG_I16, PG_I32 and PG_I64 */
void pg_element_double(struct pg_params *p, double v);
void pg_element_uuid(struct pg_params *p, struct uuid v); /* nil becomes NULL */
void pg_element_text(struct pg_params *p, struct str v);  /* for PG_TEXT and PG_BYTES */
void pg_element_text_or_null(struct pg_params *p, struct str v);
void pg_element_null(struct pg_params *p);
void pg_array_end(struct pg_params *p);
/* An array of one member of many rows: a struct uuid or an int64_t. */
#define pg_add_members(p, rows, n, member)                                                                             \
    pg_add_column((p),                                                                                                 \
                  _Generic((rows)->member, struct uuid                                                                 \
                           : PG_UUID, int64_t                                                                          \
                           : PG_I64),                                                                                  \
                  (rows), (n), sizeof *(rows), offsetof(__typeof__(*(rows)), member))
void pg_add_column(struct pg_params *p, enum pg_type type, const void *rows, size_t n, size_t size, size_t offset);

/* The columns of n rows, one array for each column, in the table's order. rows[i] points to a struct. COL_LANE takes
 * the lane's number from lanes[i]; lanes is NULL if the table has no lane column. COL_INT becomes int[], other numbers
 * bigint[]: the INSERT narrows them. */
void pg_add_rows(struct pg_params *p, const struct table *t, const void *const *rows, const int64_t *lanes, size_t n);

/* ---- connection (connection.c) ---- */

/* A statement that was sent and whose result has not been read. */
struct pg_sent {
    bool quiet;           /* sent by pg_queue: no caller reads its result */
    const char *prepares; /* the name of the statement that this message prepares; NULL: it runs one */
};

/* The text of a statement. Each connection records by itself which statements it has prepared. */
struct pg_statement {
    const char *name; /* unique among all statements; the prepared statement has this name */
    const char *sql;  /* parameters are $1, $2, … and $* */
};

struct pg_conn {
    PGconn *pg;
    char *url; /* for libpq: Belfry's own settings are removed */
    struct clock *clock;
    /* The longest time that a statement may take, in milliseconds; 0: 10 s. Migrations and archiving set more. */
    int64_t answer_ms;
    bool prepare;         /* use named prepared statements, otherwise unnamed ones */
    bool is_reader;       /* connects to any host, read-only ones too */
    struct map prepared;  /* names of the prepared statements */
    struct buf sql;       /* a statement's text with its $* expanded */
    struct pg_sent *sent; /* ring of sent statements whose results are unread */
    size_t sent_first, sent_count, sent_cap;
    size_t awaited;                  /* how many of these a caller will read (pg_get) */
    size_t group;                    /* how many of these belong to the group whose sync was sent */
    int64_t retry_at_ns, backoff_ms; /* steady clock: no connect before retry_at_ns */
    int64_t backoff_max_ms;
    uint64_t generation; /* rises with each connect: session state of an older generation is gone */
    enum err failed;     /* the transaction is lost: only a rollback may follow */
    struct error failure;
    bool answered; /* a result has arrived since pg_conn_ready: the connection was alive */
    bool retry;    /* failed by a serialization failure or a deadlock: a retry may succeed */
};

enum err pg_conn_init(struct pg_conn *c, const char *url, bool is_reader, struct clock *clock,
                      struct error *e) must_use;
void pg_conn_release(struct pg_conn *c); /* a zeroed one is fine */

/* Makes the connection connected and idle, or returns ERR_UNAVAILABLE. Reconnects if necessary, but not before the
 * backoff has passed; the time to connect is limited. Clears an earlier failure. */
enum err pg_conn_ready(struct pg_conn *c, struct error *e) must_use;

/* Reads and discards all results in flight, then runs the text (ROLLBACK or ROLLBACK TO op) and clears `failed`. Fails
 * only if the connection is lost. */
enum err pg_rollback(struct pg_conn *c, const char *sql, struct error *e) must_use;

/* A result: rows and columns by number. Release it; a zeroed one is fine. */
struct pg_result {
    PGresult *r;
    int rows;
    int64_t affected; /* rows changed by UPDATE, DELETE or INSERT */
};
void pg_result_release(struct pg_result *r);

/* Sends a statement. In its text, `$*` stands for all parameters after the highest numbered one: unnest($*). A
 * statement has the same parameter types at every use. If no result comes in time, the connection is closed. */
enum err pg_send(struct pg_conn *c, const struct pg_statement *s, const struct pg_params *p, struct error *e) must_use;
/* Reads the result of the oldest statement that was sent. If ret is NULL, the result is discarded. */
enum err pg_get(struct pg_conn *c, struct pg_result *ret, struct error *e) must_use;
/* Sends a statement and reads its result. Nothing may be in flight; p and ret may be NULL. */
enum err pg_run(struct pg_conn *c, const struct pg_statement *s, const struct pg_params *p, struct pg_result *ret,
                struct error *e) must_use;
/* Sends a statement whose result nobody needs. It leaves with the next statement, and no pg_get returns its result. If
 * it fails, each pg_get after it fails with its error. It does not count as in flight. */
enum err pg_queue(struct pg_conn *c, const struct pg_statement *s, const struct pg_params *p, struct error *e) must_use;
/* Runs one statement without parameters, such as BEGIN. It is not prepared. Nothing may be in flight. */
enum err pg_exec(struct pg_conn *c, const char *sql, struct error *e) must_use;
/* Sends such a statement without waiting for its result. */
enum err pg_send_text(struct pg_conn *c, const char *sql, struct error *e) must_use;
bool pg_in_flight(const struct pg_conn *c);

/* Maps an error of PostgreSQL to an error code and records it in `failed`. ERR_UNAVAILABLE: the same may succeed later
 * (connection lost, shutdown, too many connections, read-only server, disk full); after SQLSTATE 40001 and 40P01 also
 * sets c->retry. ERR_CORRUPT with PostgreSQL's message: anything else. */
enum err pg_fail(struct pg_conn *c, const PGresult *r, struct error *e);
/* Records and returns ERR_CORRUPT for a violation that Belfry itself has detected. */
enum err pg_corrupt(struct pg_conn *c, const char *what, struct error *e);

bool pg_is_null(const struct pg_result *r, int row, int column);
bool pg_bool(const struct pg_result *r, int row, int column);
int64_t pg_i64(const struct pg_result *r, int row, int column); /* any integer type; NULL is 0 */
double pg_double(const struct pg_result *r, int row, int column);
struct uuid pg_uuid(const struct pg_result *r, int row, int column); /* NULL is nil */
struct str pg_text(const struct pg_result *r, int row,
                   int column); /* text and bytea; borrowed from the result; NULL is empty */

/* Iterates over a uuid[]. */
struct pg_walk {
    const char *at;
    int left;
};
struct pg_walk pg_array_of(const struct pg_result *r, int row, int column); /* NULL has no elements */
bool pg_next_uuid(struct pg_walk *w, struct uuid *ret);

/* A lane's columns. pg_read_lane reads them from `first` on; its texts are borrowed from the result. */
#define PG_LANE_COLUMNS "tenant_id, queue, priority, requires, cpu_milli, memory_mb, host"
enum { PG_LANE_COLUMN_COUNT = 7 };
struct lane pg_read_lane(const struct pg_result *r, int row, int first);

/* Load all lanes from the table; find a lane by its number, and load the table if it is unknown. Nothing may be in
 * flight. */
enum err pg_lanes_load(struct pg_conn *c, struct store_lanes *l, struct error *e) must_use;
enum err pg_lanes_at(struct pg_conn *c, struct store_lanes *l, int64_t number, const struct lane_row **ret,
                     struct error *e) must_use;

/* Finds the numbers of n lanes. Inserts those that do not exist yet, in one statement and in the order of their
 * columns: processes that make the same lanes at the same time wait for each other, but in one direction. Nothing may
 * be in flight. */
struct pg_lane_want {
    struct lane lane;
    int pool;
    int64_t number; /* result */
};
enum err pg_lanes_find(struct pg_conn *c, struct store_lanes *l, struct pg_lane_want *v, size_t n, bool *ret_made,
                       struct error *e) must_use;

/* Reads the columns from `first` on into a zeroed struct. Nothing may be in flight: a lane may have to be loaded. */
enum err pg_row_read(struct pg_conn *c, struct store_lanes *lanes, const struct pg_result *r, int row, int first,
                     const struct table *t, struct arena *a, void *ret, struct error *e) must_use;
