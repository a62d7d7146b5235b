#include "core/time/crontab.h"

#include <assert.h>

enum { WORDS_MAX = 64, FIELDS = 5 };

static bool crontab_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct str crontab_skip_blanks(struct str s)
{
    size_t i = 0;
    while (i < s.n && crontab_is_blank(s.p[i]))
        i++;
    return str_sub(s, i, s.n);
}

/* Cuts off the next word and the blanks before it; empty at the end. */
static struct str crontab_cut_word(struct str *rest)
{
    *rest = crontab_skip_blanks(*rest);
    size_t i = 0;
    while (i < rest->n && !crontab_is_blank(rest->p[i]))
        i++;
    struct str word = str_sub(*rest, 0, i);
    *rest = str_sub(*rest, i, rest->n);
    return word;
}

/* ---- splitting into words ---- */

struct crontab_words {
    struct str v[WORDS_MAX];
    size_t n;
};

/* Reads a word and removes its quotes and escapes. Characters that a shell would interpret are refused by name. */
static enum err crontab_unquote(struct str *rest, struct arena *a, struct str *ret, struct error *e)
{
    char *out = arena_array(a, char, rest->n + 1);
    size_t n = 0, i = 0;
    char quote = '\0';
    if (!out)
        return error_set(e, ERR_LIMIT, "the line is too long");
    for (; i < rest->n && (quote || !crontab_is_blank(rest->p[i])); i++) {
        char c = rest->p[i];
        if (quote && c == quote)
            quote = '\0';
        else if (!quote && (c == '\'' || c == '"'))
            quote = c;
        else if (c == '\\' && quote != '\'' && i + 1 < rest->n)
            out[n++] = rest->p[++i];
        else if (c == '%')
            return error_set(e, ERR_INVALID, "a bare %% means a new line to cron; write it as \\%%");
        else if (quote != '\'' && (c == '$' || c == '`'))
            return error_set(e, ERR_INVALID, "it uses the shell: '%c' is replaced when it runs", c);
        else if (!quote && strchr("|;&<>()", c))
            return error_set(e, ERR_INVALID, "it uses the shell: '%c'", c);
        else
            out[n++] = c;
    }
    if (quote)
        return error_set(e, ERR_INVALID, "a quote is not closed");
    out[n] = '\0';
    *ret = (struct str){ out, n };
    *rest = str_sub(*rest, i, rest->n);
    return ERR_OK;
}

/* Redirections of the output are dropped: the execution keeps the output. */
static bool crontab_cut_redirection(struct str *rest)
{
    static const char *const known[] = { ">/dev/null",   "> /dev/null", "2>&1",        "2>/dev/null",
                                         "2> /dev/null", "&>/dev/null", "&> /dev/null" };
    for (size_t i = 0; i < array_count(known); i++) {
        struct str k = str_from(known[i]);
        if (str_starts(*rest, k) && (rest->n == k.n || crontab_is_blank(rest->p[k.n]))) {
            *rest = str_sub(*rest, k.n, rest->n);
            return true;
        }
    }
    return false;
}

static enum err crontab_split_words(struct str command, struct arena *a, struct crontab_words *ret, struct error *e)
{
    struct str rest = crontab_skip_blanks(command);
    while (rest.n) {
        if (!crontab_cut_redirection(&rest)) {
            if (ret->n == WORDS_MAX)
                return error_set(e, ERR_INVALID, "it has more than %d words", WORDS_MAX);
            if (crontab_unquote(&rest, a, &ret->v[ret->n++], e))
                return e->code;
        }
        rest = crontab_skip_blanks(rest);
    }
    return ERR_OK;
}

/* ---- curl and wget ---- */

enum crontab_option_meaning { IGNORED, IGNORED_VALUE, METHOD, HEADER, BODY, TIMEOUT, HEAD, URL };

static const struct crontab_flag {
    const char *program, *name;
    enum crontab_option_meaning meaning;
} flags[] = {
    { "curl", "-s", IGNORED },        { "curl", "--silent", IGNORED },
    { "curl", "-S", IGNORED },        { "curl", "--show-error", IGNORED },
    { "curl", "-f", IGNORED },        { "curl", "--fail", IGNORED },
    { "curl", "-sS", IGNORED },       { "curl", "-fsS", IGNORED },
    { "curl", "-fs", IGNORED },       { "curl", "-sf", IGNORED },
    { "curl", "-o", IGNORED_VALUE },  { "curl", "--output", IGNORED_VALUE },
    { "curl", "-X", METHOD },         { "curl", "--request", METHOD },
    { "curl", "-H", HEADER },         { "curl", "--header", HEADER },
    { "curl", "-d", BODY },           { "curl", "--data", BODY },
    { "curl", "--data-raw", BODY },   { "curl", "--data-binary", BODY },
    { "curl", "-m", TIMEOUT },        { "curl", "--max-time", TIMEOUT },
    { "curl", "-I", HEAD },           { "curl", "--head", HEAD },
    { "curl", "--url", URL },         { "wget", "-q", IGNORED },
    { "wget", "--quiet", IGNORED },   { "wget", "-nv", IGNORED },
    { "wget", "-O", IGNORED_VALUE },  { "wget", "--output-document", IGNORED_VALUE },
    { "wget", "-qO-", IGNORED },      { "wget", "-O-", IGNORED },
    { "wget", "--spider", HEAD },     { "wget", "--header", HEADER },
    { "wget", "--post-data", BODY },  { "wget", "--method", METHOD },
    { "wget", "--body-data", BODY },  { "wget", "-T", TIMEOUT },
    { "wget", "--timeout", TIMEOUT },
};

static const struct crontab_flag *crontab_find_flag(struct str program, struct str name)
{
    for (size_t i = 0; i < array_count(flags); i++)
        if (str_eq(program, str_from(flags[i].program)) && str_eq(name, str_from(flags[i].name)))
            return &flags[i];
    return NULL;
}

static enum err crontab_use_timeout(struct str value, struct crontab_call *c, struct error *e)
{
    int64_t seconds;
    if (!str_to_i64(value, 1, 86400, &seconds))
        return error_set(e, ERR_INVALID, "its time limit '" STR_FMT "' is not a whole number of seconds",
                         STR_ARG(value));
    c->timeout_ms = seconds * 1000;
    return ERR_OK;
}

static enum err crontab_use_url(struct str url, struct crontab_call *c, struct error *e)
{
    if (c->url.n)
        return error_set(e, ERR_INVALID, "it calls more than one URL");
    if (!str_starts(url, S("http://")) && !str_starts(url, S("https://")))
        return error_set(e, ERR_INVALID, "'" STR_FMT "' is not an http:// or https:// URL",
                         STR_ARG(str_utf8_cut(url, 60)));
    c->url = url;
    return ERR_OK;
}

static enum err crontab_use_value(enum crontab_option_meaning meaning, struct str value, struct crontab_call *c,
                                  struct error *e)
{
    switch (meaning) {
    case IGNORED:
    case IGNORED_VALUE: return ERR_OK;
    case METHOD: c->method = value; return ERR_OK;
    case HEAD: c->method = S("HEAD"); return ERR_OK;
    case TIMEOUT: return crontab_use_timeout(value, c, e);
    case URL: return crontab_use_url(value, c, e);
    case HEADER:
        if (c->header_count == CRONTAB_HEADERS_MAX)
            return error_set(e, ERR_INVALID, "it sends more than %d headers", CRONTAB_HEADERS_MAX);
        c->headers[c->header_count++] = value;
        return ERR_OK;
    case BODY:
        if (str_starts(value, S("@")))
            return error_set(e, ERR_INVALID, "it sends a file, which the server does not have");
        if (c->body.p)
            return error_set(e, ERR_INVALID, "it sends more than one piece of data");
        c->body = value;
        return ERR_OK;
    }
    return ERR_OK;
}

/* The value of an option is given as --name=value or is the next word. */
static enum err crontab_use_option(struct str program, const struct crontab_words *w, size_t *at,
                                   struct crontab_call *c, struct error *e)
{
    struct str word = w->v[*at];
    size_t equals = str_starts(word, S("--")) ? str_find(word, '=', 0) : word.n;
    struct str name = str_sub(word, 0, equals);
    const struct crontab_flag *f = crontab_find_flag(program, name);
    if (!f)
        return error_set(e, ERR_INVALID, "the option '" STR_FMT "' has no equivalent in Belfry",
                         STR_ARG(str_utf8_cut(name, 60)));
    bool wants_value = f->meaning != IGNORED && f->meaning != HEAD;
    if (!wants_value)
        return crontab_use_value(f->meaning, S(""), c, e);
    if (equals < word.n)
        return crontab_use_value(f->meaning, str_sub(word, equals + 1, word.n), c, e);
    if (*at + 1 == w->n)
        return error_set(e, ERR_INVALID, "the option '" STR_FMT "' has no value", STR_ARG(name));
    return crontab_use_value(f->meaning, w->v[++*at], c, e);
}

static struct str crontab_base_name(struct str path)
{
    size_t from = path.n;
    while (from > 0 && path.p[from - 1] != '/')
        from--;
    return str_sub(path, from, path.n);
}

static enum err crontab_read_call(const struct crontab_words *w, struct crontab_call *c, struct error *e)
{
    struct str program = w->n ? crontab_base_name(w->v[0]) : S("");
    if (!str_eq(program, S("curl")) && !str_eq(program, S("wget")))
        return error_set(e, ERR_INVALID, "it runs a program, '" STR_FMT "'", STR_ARG(str_utf8_cut(program, 60)));
    for (size_t i = 1; i < w->n; i++) {
        bool option = w->v[i].n > 1 && w->v[i].p[0] == '-';
        if (option ? crontab_use_option(program, w, &i, c, e) : crontab_use_url(w->v[i], c, e))
            return e->code;
    }
    return c->url.n ? ERR_OK : error_set(e, ERR_INVALID, "it names no URL");
}

/* ---- lines ---- */

/* NAME=value as in cron: blanks around the sign and quotes around the value are allowed. */
static bool crontab_read_setting(struct str line, struct crontab_line *ret)
{
    size_t equals = str_find(line, '=', 0);
    struct str name = str_trim(str_sub(line, 0, equals));
    bool fits = equals < line.n && name.n > 0 && !is_digit(name.p[0]);
    for (size_t i = 0; fits && i < name.n; i++)
        fits =
            is_digit(name.p[i]) || name.p[i] == '_' || (ascii_lower(name.p[i]) >= 'a' && ascii_lower(name.p[i]) <= 'z');
    if (!fits)
        return false;
    struct str value = str_trim(str_sub(line, equals + 1, line.n));
    bool quoted = value.n >= 2 && (value.p[0] == '"' || value.p[0] == '\'') && value.p[value.n - 1] == value.p[0];
    ret->name = name;
    ret->text = quoted ? str_sub(value, 1, value.n - 1) : value;
    return true;
}

static enum err crontab_read_schedule(struct str *rest, struct crontab_line *ret, struct error *e)
{
    struct str from = *rest;
    bool macro = rest->n && rest->p[0] == '@';
    for (int i = 0; i < (macro ? 1 : FIELDS); i++)
        if (crontab_cut_word(rest).n == 0)
            return error_set(e, ERR_INVALID, "it has too few fields");
    ret->schedule = str_sub(from, 0, (size_t)(rest->p - from.p));
    if (str_eq(ret->schedule, S("@reboot")))
        return error_set(e, ERR_INVALID, "it runs when the machine starts; run a one-time task at start instead");
    struct cron ignored;
    return cron_parse(ret->schedule, 0, &ignored, e);
}

static enum err crontab_read_command(struct str line, bool has_user, struct arena *a, struct crontab_line *ret)
{
    struct crontab_words words = { .n = 0 };
    struct error *e = &ret->reason;
    struct str rest = line;
    if (crontab_read_schedule(&rest, ret, e))
        return e->code;
    if (has_user && crontab_cut_word(&rest).n == 0)
        return error_set(e, ERR_INVALID, "it names no user");
    if (crontab_skip_blanks(rest).n == 0)
        return error_set(e, ERR_INVALID, "it has no command");
    return crontab_split_words(rest, a, &words, e) ? e->code : crontab_read_call(&words, &ret->call, e);
}

void crontab_read(struct str line, bool has_user, struct arena *a, struct crontab_line *ret)
{
    assert(ret);
    *ret = (struct crontab_line){ .kind = CRONTAB_NOTHING };
    struct str text = str_trim(line);
    if (text.n == 0)
        return;
    if (text.p[0] == '#') {
        ret->kind = CRONTAB_COMMENT;
        ret->text = str_trim(str_sub(text, 1, text.n));
        return;
    }
    if (crontab_read_setting(text, ret)) {
        ret->kind = CRONTAB_SETTING;
        return;
    }
    ret->kind = crontab_read_command(text, has_user, a, ret) ? CRONTAB_REFUSED : CRONTAB_CALL;
}
