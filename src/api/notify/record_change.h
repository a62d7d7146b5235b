#pragma once
/* api/notify/record_change.h - shows incidents and messages, and changes one: reads its record, decides what it
 * becomes, and writes it if it is still the one that was read; if not, all starts again. A
 * pool thread that owns the request. */
#include "api/server/request.h"
#include "core/notify/notification.h"

struct record_edit {
    enum record_kind kind;
    const char *what; /* "incident", for sentences */
    /* Decides what the record becomes, and writes the answer: sets key, next_ms and doc of *change, which holds the
     * record as it is. */
    enum err (*make)(struct request *q, struct reader *r, struct record_change *change, struct error *e);
    enum incident_change what_changes; /* of an incident: for those who watch */
    struct incident incident;          /* as `make` made it */
    int tries;
    struct record_change change;
};

/* Reads the record with the id of the path. ERR_NOT_FOUND. */
enum err record_get(struct request *q, struct reader *r, enum record_kind kind, struct uuid id, struct record *ret,
                    struct error *e) must_use;

/* The names of the tenant's settings. */
struct setting_names {
    struct setting_name {
        struct uuid id;
        struct str name;
    } * v;
    size_t n;
};
enum err setting_names_read(struct request *q, struct reader *r, struct setting_names *ret, struct error *e) must_use;
struct str setting_names_get(const struct setting_names *names, struct uuid id); /* empty: it was removed */

/* Writes a record as the API shows it. */
typedef enum err record_show(struct request *q, struct jw *w, const struct record *record,
                             const struct setting_names *names, struct error *e);
/* A page of records, as an array with this name. */
enum handled records_answer(struct request *q, struct reader *r, const struct record_filter *f, const char *name,
                            record_show *show);
/* The record with the id of the path. */
enum handled record_answer(struct request *q, struct reader *r, enum record_kind kind, record_show *show);

enum handled record_edit_begin(struct request *q, struct reader *r, struct record_edit edit);

/* Documents of records, in the arena of the request. */
enum err record_set_incident(struct request *q, struct record *r, const struct incident *i, struct error *e) must_use;
enum err record_set_message(struct request *q, struct record *r, const struct notification *m,
                            struct error *e) must_use;
