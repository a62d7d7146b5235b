#pragma once
/* api/resource/listing.h - lists of tasks: their common query parameters, both kinds of paging, one form of answer. The
 * thread that owns the request calls all functions; listing_answer needs a pool thread. */
#include "api/server/query.h"
#include "api/server/request.h"
#include "api/task/json.h"

enum { NAME_FILTER_MAX = 256 /* characters: the longest name, and a * */, SEARCH_TEXT_MAX = 256 };

#define LISTING_IN_PAYLOAD "payload:" /* what a search in payloads begins with */
#define LISTING_TOO_LARGE  "the answer would be too large; ask for fewer items, with 'limit'"

enum { LISTING_VIEW_BRIEF = 2 };

struct listing {
    unsigned states;
    int kind; /* 0: any, 1: ONE_TIME, 2: RECURRING */
    struct str name, queue, task_type, cause;
    struct str workflow;    /* of runs: the name of their definition */
    struct str id;          /* a whole id, or its beginning */
    struct str search;      /* a text that is to be found; see listing_search */
    int occurrences;        /* 2: list occurrences, too */
    int group_by, resolved; /* of dead letters. group_by 1: by cause. resolved 1: no, 2: yes */
    int64_t due_before_ms, due_after_ms, created_before_ms, created_after_ms;
    int view;            /* 0 and 1: whole tasks */
    int64_t limit, page; /* page 0: by cursor */
    struct str cursor;
    struct uuid before; /* the cursor's */
};

/* Reads the query parameters of this kind of list. page and cursor exclude each other. False: the request is
 * answered. */
enum listing_kind { LISTING_TASKS, LISTING_RECURRING, LISTING_OCCURRENCES, LISTING_DLQ, LISTING_RUNS };
bool listing_read(struct request *q, enum listing_kind kind, struct listing *ret);

/* Answers with the list. filter holds the caller's own conditions; tenant and paging are filled in here. */
enum handled listing_answer(struct request *q, struct reader *r, const struct listing *l, struct task_filter filter);

/* Narrows the filter to the ids that begin with a text. */
void listing_filter_by_id(struct str text, struct task_filter *f);

/* Answers with the tasks that have the text of l->search in their name, concurrency key or dedupe key, whose id begins
 * with it, whose trace id, request id or Idempotency-Key it is, or, behind "payload:", that have it in their payload.
 * It looks at tasks for 250 ms, and says how far it came. A pool thread. */
enum handled listing_search(struct request *q, struct reader *r, const struct listing *l, struct task_filter filter);
