#include "cli/task_parents.h"

#include "cli/json_set.h"

enum { TYPE_TEXT = 32, PARENTS_MAX = 1 << 20 };

/* A name may have a colon: what follows the last one is a type if it begins like one, or if the rest is an id. */
static void task_parent_split(struct str word, struct str *ret_task, struct str *ret_type)
{
    struct uuid id;
    size_t colon = word.n;
    for (size_t at = str_find(word, ':', 0); at < word.n; at = str_find(word, ':', at + 1))
        colon = at;
    struct str task = str_sub(word, 0, colon), type = str_sub(word, min_of(colon + 1, word.n), word.n);
    bool is_type = str_eq_nocase(str_sub(type, 0, min_of((size_t)4, type.n)), S("must")) || uuid_parse(task, &id);
    *ret_task = is_type ? task : word;
    *ret_type = is_type ? type : S("");
}

/* must-finish → MUST_FINISH; the API says which types there are. */
static void task_parent_write_type(struct str type, struct jw *w)
{
    char text[TYPE_TEXT];
    size_t n = min_of(type.n, sizeof text);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(type.p[i] == '-'                       ? '_'
                         : type.p[i] >= 'a' && type.p[i] <= 'z' ? type.p[i] - 'a' + 'A'
                                                                : type.p[i]);
    jw_kv_str(w, "type", (struct str){ text, n });
}

void task_parents_write(const struct option_value *words, const struct ids *ids, struct jw *w)
{
    jw_array(w);
    for (size_t i = 0; i < words->list_count; i++) {
        struct str task, type;
        task_parent_split(words->list[i], &task, &type);
        jw_object(w);
        jw_kv_str(w, "task", ids ? str_from(ids->v[i]) : task);
        if (type.n)
            task_parent_write_type(type, w);
        jw_object_end(w);
    }
    jw_array_end(w);
}

enum exit_code task_parents_resolve(struct client *c, const struct options *o, struct buf *body)
{
    cleanup_with(ids_release) struct ids ids = { 0 };
    cleanup_with(buf_release) struct buf value;
    const struct option_value *words = option_get(o, "after");
    struct buf changed;
    struct error e;
    struct jw w;
    bool replaced;
    enum exit_code code = EXIT_DONE;
    buf_init(&value, PARENTS_MAX);
    for (size_t i = 0; code == EXIT_DONE && i < words->list_count; i++) {
        struct str task, type;
        task_parent_split(words->list[i], &task, &type);
        code = task.n ? ids_resolve_word(c, task, "/v1/tasks", &ids) : EXIT_DONE;
    }
    if (code || ids.n != words->list_count || !ids.n)
        return code; /* the server refuses an empty word */
    buf_init(&changed, body->max);
    jw_init(&w, &value);
    task_parents_write(words, &ids, &w);
    if (json_set(buf_str(body), S("depends_on"), buf_str(&value), &replaced, &changed, &e)) {
        buf_release(&changed);
        return cli_fail(client_cli(c), client_cli(c)->command->name, &e, EXIT_USAGE);
    }
    buf_release(body);
    *body = changed;
    return EXIT_DONE;
}
