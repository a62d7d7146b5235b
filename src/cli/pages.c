#include "cli/pages.h"

#include "cli/filter.h"

enum { PATH_MAX_BYTES = 16384 };

/* clang-format off */
const struct option page_options[] = {
    { .flag = "limit", .letter = 'n', .type = OPTION_INT, .value = "N", .preset = "20", .min = 1, .max = 1000000,
      .help = "print at most N" },
    { .flag = "all", .letter = 'a', .type = OPTION_FLAG, .help = "print all of them" },
};
/* clang-format on */

int64_t pages_limit(const struct options *o)
{
    return option_get(o, "all")->number ? INT64_MAX : option_get(o, "limit")->number;
}

static void pages_write_path(const struct pages *p, int64_t limit, const struct buf *cursor, struct buf *out)
{
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)min_of(limit, (int64_t)PAGES_LIMIT_MAX));
    buf_text(out, p->path);
    if (!p->unlimited)
        query_add(out, "limit", str_from(number));
    if (cursor->n)
        query_add(out, "cursor", buf_str(cursor));
}

/* Calls row and page callbacks for a page. False: stop. */
static bool pages_deliver_rows(struct pages *p, const struct client_answer *a, int64_t *rest)
{
    const json_t *items = json_at(a->doc.root, p->member);
    struct json_cursor texts = { .text = json_member_text(&a->doc, p->member) };
    struct str text;
    for (size_t i = 0; *rest > 0 && json_next(&texts, NULL, &text); i++) {
        const json_t *item = json_array_get(items, i);
        if (p->wanted && !p->wanted(p->context, item))
            continue;
        if (!p->row(p->context, item, text))
            return false;
        --*rest;
    }
    return !p->page || p->page(p->context);
}

static struct str pages_next_cursor(const json_t *answer)
{
    struct str cursor = json_text_at(answer, "pagination.next_cursor");
    return cursor.n ? cursor : json_text_at(answer, "next_cursor"); /* lists of workflows */
}

static enum exit_code pages_walk_page(struct pages *p, struct buf *cursor, int64_t *rest)
{
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, PATH_MAX_BYTES);
    pages_write_path(p, *rest, cursor, &path);
    buf_reset(cursor);
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    struct client_request call = { .method = "GET", .path = buf_cstr(&path), .about = p->about, .quiet = p->quiet };
    enum exit_code code = client_call(p->client, &call, &a);
    if (code)
        return code;
    if (pages_deliver_rows(p, &a, rest))
        buf_add(cursor, pages_next_cursor(a.doc.root));
    return EXIT_DONE;
}

enum exit_code pages_walk(struct pages *p)
{
    int64_t rest = p->limit;
    enum exit_code code;
    cleanup_with(buf_release) struct buf cursor;
    buf_init(&cursor, PATH_MAX_BYTES / 2);
    do
        code = pages_walk_page(p, &cursor, &rest);
    while (code == EXIT_DONE && cursor.n && rest > 0);
    p->has_more = cursor.n > 0;
    return code;
}
