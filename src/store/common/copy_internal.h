#pragma once
/* store/common/copy_internal.h - the interface between the source and the target of a copy: rows as structs, and
 * checksums. The source knows nothing of PostgreSQL, the target nothing of SQLite. */
#include "port/secrets.h"
#include "store/common/columns.h"
#include "store/common/copy.h"

enum { COPY_KEYS_MAX = 4, PEPPER_SIZE = 32 };

struct copy_kind {
    const char *name; /* of the table, in both stores */
    const struct table *table;
    size_t size;                       /* of the struct that holds a row */
    int key[COPY_KEYS_MAX], key_count; /* the columns that identify a row */
};
extern const struct copy_kind copy_kinds[COPY_TABLES];

union copy_row {
    struct task task;
    struct execution execution;
    struct idempotency idempotency;
    struct api_key key;
    struct catalog_entry entry;
    struct copied_claim {
        struct uuid id, node; /* its tasks name the claim in their own rows */
        int hold;
        int64_t epoch;
    } claim;
    struct copied_dedupe {
        int32_t tenant;
        struct str key;
        struct uuid task;
        int64_t until_ms;
    } dedupe;
    struct task_lease lease;
    struct copied_slot {
        int32_t tenant;
        struct str key;
        struct uuid task;
    } slot;
    struct copied_edge {
        int32_t tenant;
        struct uuid parent, child;
        int type, state;
        bool old;
    } edge;
    struct copied_join {
        int32_t tenant;
        struct uuid child;
        int kind;
        int64_t expected, arrived, met, broken, generation, max_broken;
    } join;
    struct run_row run;
    struct audit audit;
    struct stats_row stats;
    struct hit hit;
    struct record record;
    struct signal_row signal;
    struct copied_definition {
        int32_t tenant;
        uint8_t hash[DEFINITION_HASH];
        struct str text;
        int64_t put_ms;
    } definition;
    struct copied_workflow {
        struct workflow_row row;
        bool removed;
    } workflow;
    struct copied_output {
        struct uuid run;
        struct run_output output;
    } output;
    struct copied_arrival {
        struct uuid parent;
        int outcome;
        int64_t created_ms;
    } arrival;
};

/* The checksum of one row covers its columns as bytes, which do not depend on the store. The checksum of many rows does
 * not depend on their order. */
struct copy_sum {
    int64_t rows;
    uint64_t v[2];
};

/* ---- the source (store/sqlite/copy_source.c) ---- */

struct copy_source;

/* ERR_NOT_FOUND: the directory has no installation. */
enum err copy_source_open(const char *directory, int64_t now_ms, struct copy_source **ret, struct error *e) must_use;
void copy_source_free(struct copy_source *s); /* NULL is fine */
enum err copy_source_pepper(const struct copy_source *s, uint8_t ret[PEPPER_SIZE], bool *ret_found,
                            struct error *e) must_use;
/* Whether tasks have secrets, and the fingerprints of the keys that these are encrypted with (port/secrets.h). */
enum err copy_source_keys(struct copy_source *s, struct key_prints *ret, bool *ret_has_secrets,
                          struct error *e) must_use;
enum err copy_source_count(struct copy_source *s, enum copy_table t, int64_t *ret, struct error *e) must_use;
/* begin() starts at the first row; next() reads one row after the other into a zeroed struct. */
enum err copy_source_begin(struct copy_source *s, enum copy_table t, struct error *e) must_use;
enum err copy_source_next(struct copy_source *s, struct arena *a, void *row, bool *ret_found, struct error *e) must_use;
/* Finds the row with the same key as `like`. */
enum err copy_source_find(struct copy_source *s, enum copy_table t, const void *like, struct arena *a, void *row,
                          bool *ret_found, struct error *e) must_use;

/* ---- the target (store/postgres/copy_target.c) ---- */

struct copy_target;

enum err copy_target_open(const char *url, struct clock *clock, struct copy_target **ret, struct error *e) must_use;
void copy_target_free(struct copy_target *t);
/* ERR_CONFLICT: a server runs on it. If it cannot know at once, waits some seconds for a heartbeat. */
enum err copy_target_is_idle(struct copy_target *t, struct error *e) must_use;
enum err copy_target_count(struct copy_target *t, enum copy_table table, int64_t *ret, struct error *e) must_use;
/* From now until copy_target_done no server starts on the target. Writes the pepper; ERR_CONFLICT: it has another
 * one. */
enum err copy_target_mark(struct copy_target *t, const uint8_t *pepper, struct error *e) must_use;
/* From then on, no node starts on the target without the key file. */
enum err copy_target_keys(struct copy_target *t, const struct key_prints *known, struct error *e) must_use;
enum err copy_target_done(struct copy_target *t, struct error *e) must_use;
/* Rows that exist already stay as they are. */
enum err copy_target_put(struct copy_target *t, enum copy_table table, const void *const *rows, size_t n,
                         int64_t *ret_added, struct error *e) must_use;
/* As for the source; reads one snapshot. */
enum err copy_target_begin(struct copy_target *t, enum copy_table table, struct error *e) must_use;
enum err copy_target_next(struct copy_target *t, struct arena *a, void *row, bool *ret_found, struct error *e) must_use;
