#include "port/store/catalog.h"

enum err catalog_docs_fit(const struct op_catalog *op, struct error *e)
{
    for (size_t i = 0; i < op->n; i++) {
        if (op->v[i].remove || op->v[i].entry.doc.n <= CATALOG_DOC_MAX)
            continue;
        error_set(e, ERR_LIMIT, "has more than %d bytes", CATALOG_DOC_MAX);
        return error_in(e, "doc");
    }
    return ERR_OK;
}
