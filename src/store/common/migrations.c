/* A file's name holds version, name and direction: 0001_start.up.sql. */
#include "store/common/migrations.h"

#include <assert.h>

static struct str migrations_name_of(const struct embedded_file *f, const char *ending)
{
    struct str whole = str_from(f->name);
    assert(whole.n > 5 + strlen(ending) && whole.p[4] == '_');
    return str_sub(whole, 5, whole.n - strlen(ending));
}

int schema_newest(const struct schema *s)
{
    return (int)s->file_count / 2;
}

/* Reads the options in the comments at the top of a file. */
static void migrations_read_options(struct str text, struct schema_step *ret)
{
    struct str readers = S("-- readers from "), line;
    int64_t n;
    while (str_cut(&text, '\n', &line) && str_starts(line, S("--"))) {
        if (str_eq(line, S("-- no transaction")))
            ret->alone = true;
        if (str_starts(line, readers) && str_to_i64(str_sub(line, readers.n, line.n), 1, ret->version, &n))
            ret->readers_from = (int)n;
    }
}

struct schema_step schema_step_at(const struct schema *s, int version)
{
    assert(version >= 1 && version <= schema_newest(s));
    const struct embedded_file *down = &s->files[2 * version - 2], *up = down + 1;
    struct schema_step v = {
        .version = version, .name = migrations_name_of(up, ".up.sql"), .up = up->text, .down = down->text
    };
    int64_t number = 0;
    bool numbered = str_to_i64(str_sub(str_from(up->name), 0, 4), 1, 9999, &number);
    assert(numbered && number == version && str_eq(v.name, migrations_name_of(down, ".down.sql")));
    v.readers_from = version;
    migrations_read_options(v.up, &v);
    return v;
}

/* The line without its trailing comment and blanks. */
static struct str migrations_strip_comment(struct str line)
{
    bool quoted = false;
    for (size_t i = 0; i + 1 < line.n; i++) {
        quoted ^= line.p[i] == '\'';
        if (!quoted && line.p[i] == '-' && line.p[i + 1] == '-')
            line.n = i;
    }
    return str_trim(line);
}

bool schema_next_statement(struct str *rest, struct str *ret)
{
    struct str line;
    const char *from = rest->p;
    while (str_cut(rest, '\n', &line)) {
        struct str text = migrations_strip_comment(line);
        if (text.n && text.p[text.n - 1] == ';') {
            *ret = (struct str){ from, (size_t)(text.p + text.n - 1 - from) };
            return true;
        }
    }
    return false;
}

enum err store_migrations_known(const struct schema *s, size_t more, struct arena *a, struct store_migration **ret,
                                struct error *e)
{
    struct store_migration *v = arena_array(a, struct store_migration, (size_t)schema_newest(s) + more);
    if (!v)
        return error_no_room(e);
    for (int i = 1; i <= schema_newest(s); i++)
        v[i - 1] = (struct store_migration){ .version = i, .name = schema_step_at(s, i).name, .known = true };
    *ret = v;
    return ERR_OK;
}

enum err store_migrations_mark(const struct schema *s, struct arena *a, struct store_migration *v, size_t *count,
                               int version, struct str name, int64_t applied_ms, struct error *e)
{
    bool known = version >= 1 && version <= schema_newest(s);
    struct store_migration *m = known ? &v[version - 1] : &v[(*count)++];
    m->version = version;
    m->applied = true;
    m->applied_ms = applied_ms;
    return known || arena_str(a, name, &m->name) ? ERR_OK : error_no_room(e);
}
