/* Runs of workflows (port/store/runs.h). */
#include "store/postgres/internal.h"

#define NOT_YET(verb)                                                                                                  \
    enum err postgres_##verb(struct store_postgres *s, struct op *base)                                                       \
    {                                                                                                                  \
        (void)s;                                                                                                       \
        return error_set(&base->error, ERR_UNAVAILABLE, #verb " is not there yet");                                                        \
    }
NOT_YET(open)
NOT_YET(await)
NOT_YET(signal)
NOT_YET(stop)
NOT_YET(define)
