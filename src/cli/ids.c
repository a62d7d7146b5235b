#include "cli/ids.h"

#include <stdlib.h>

#include "base/sentence.h"
#include "cli/pages.h"

void ids_release(struct ids *ids)
{
    free(ids->v);
    *ids = (struct ids){ 0 };
}

void ids_add(struct ids *ids, struct uuid id)
{
    if (ids->n == ids->cap) {
        ids->cap = max_of(ids->cap * 2, (size_t)16);
        ids->v = xrealloc(ids->v, ids->cap * sizeof *ids->v);
    }
    uuid_format(id, ids->v[ids->n++]);
}

enum err ids_some(const struct options *o, struct ids *ret, struct error *e)
{
    struct ids found = { 0 };
    if (!o->word_count)
        return error_set(e, ERR_INVALID, "a task's id is missing; 'belfry list' prints them");
    for (size_t i = 0; i < o->word_count; i++) {
        struct uuid id;
        char shown[QUOTE_TEXT];
        if (!uuid_parse(o->words[i], &id)) {
            ids_release(&found);
            quote_text(o->words[i], shown);
            return error_set(e, ERR_INVALID, "%s is not the id of a task; 'belfry list' prints them", shown);
        }
        ids_add(&found, id);
    }
    *ret = found;
    return ERR_OK;
}

enum err ids_one(const struct options *o, struct ids *ret, struct error *e)
{
    if (o->word_count > 1)
        return error_set(e, ERR_INVALID, "takes one id, not %zu", o->word_count);
    return ids_some(o, ret, e);
}

static bool ids_on_item(void *context, const json_t *item, struct str text)
{
    (void)text;
    struct uuid id;
    if (uuid_parse(json_text_at(item, "id"), &id))
        ids_add(context, id);
    return true;
}

enum exit_code ids_find(struct client *c, const char *path, struct ids *ret)
{
    struct ids found = { 0 };
    struct pages p = {
        .client = c, .path = path, .member = "tasks", .limit = INT64_MAX, .row = ids_on_item, .context = &found
    };
    enum exit_code code = pages_walk(&p);
    if (code)
        ids_release(&found);
    else
        *ret = found;
    return code;
}
