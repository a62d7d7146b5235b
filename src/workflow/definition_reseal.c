#include "workflow/definition_reseal.h"

#include "workflow/definition_secrets.h"

enum { PAGE = 20, PAGE_ARENA = 32 << 20, TEXTS_ARENA = 16 * DAG_TEXT_MAX };

/* Encrypts the secrets of a definition anew. The hash stays: it is a name only. False: it has to stay as it is. */
static bool definition_reseal_text(const struct definition_reseal *r, const struct definition *d, struct arena *a,
                                   struct resealed_definition *ret)
{
    struct error why;
    struct definition sealed;
    struct str plain;
    if (definition_secrets_open(r->secrets, d->tenant, d->text, a, &plain, &why) ||
        definition_secrets_seal(r->secrets, d->tenant, plain, a, &sealed, &why))
        return false;
    *ret = (struct resealed_definition){ .definition = d, .becomes = sealed.text };
    return true;
}

static enum err definition_reseal_page(struct definition_reseal *r, const struct definition_page *page, struct error *e)
{
    struct resealed_definition v[PAGE];
    struct op_reseal op = { .op = { .kind = OP_RESEAL }, .definitions = v };
    struct str key = str_from(r->secrets->keys[0].id);
    size_t wanted = 0;
    cleanup_with(arena_release) struct arena texts;
    arena_init(&texts, TEXTS_ARENA);
    for (size_t i = 0; i < page->n; i++) {
        bool wants = definition_secrets_lack_key(page->v[i].text, key, r->found, r->context);
        wanted += wants;
        op.definition_count += wants && definition_reseal_text(r, &page->v[i], &texts, &v[op.definition_count]);
    }
    if (op.definition_count && r->apply(r->context, &op.op, e))
        return e->code;
    r->ret_changed += (int64_t)op.ret_changed;
    r->ret_left += (int64_t)(wanted - op.ret_changed);
    return ERR_OK;
}

enum err definition_reseal(struct definition_reseal *r, struct error *e)
{
    struct definition_page page = { .more = true };
    while (page.more) {
        cleanup_with(arena_release) struct arena a;
        arena_init(&a, PAGE_ARENA);
        if (reader_definitions(r->reader, &page.next_after, PAGE, &a, &page, e) || definition_reseal_page(r, &page, e))
            return e->code;
        if (page.more && r->pause(r->context, e))
            return e->code;
    }
    return ERR_OK;
}
