/* What differs from one failure to the next of the same cause is left out word by word, a word being letters and digits in a
 * row: '*' stands for it. In a path only whole words that are ids are left out (v2 stays), in an error every number is. */
#include "core/task/fingerprint.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/json/json.h"
#include "core/target/target_url.h"

enum { UUID_CHARS = 36, ID_HEX_MIN = 16, ERROR_HEX_MIN = 8, ERROR_LOOKED_AT = 512 };

/* What is written never grows beyond its room: the rest is dropped. */
struct text {
    char *p;
    size_t n, max;
};

static void put(struct text *out, char c)
{
    if (out->n < out->max)
        out->p[out->n++] = c;
}

static void put_str(struct text *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        put(out, s.p[i]);
}

/* Several in a row say no more than one. */
static void put_star(struct text *out)
{
    if (!out->n || out->p[out->n - 1] != '*')
        put(out, '*');
}

/* ---- words ---- */

static bool is_word_char(char c)
{
    return is_digit(c) || is_alpha(c);
}

static bool is_hex_char(char c)
{
    return is_digit(c) || (is_alpha(c) && ascii_lower(c) <= 'f');
}

static bool is_uuid(struct str s)
{
    struct uuid id;
    return s.n >= UUID_CHARS && (s.n == UUID_CHARS || !is_word_char(s.p[UUID_CHARS])) &&
           uuid_parse(str_sub(s, 0, UUID_CHARS), &id);
}

static bool has_digit(struct str word)
{
    for (size_t i = 0; i < word.n; i++)
        if (is_digit(word.p[i]))
            return true;
    return false;
}

static bool is_all(struct str word, bool (*is)(char))
{
    for (size_t i = 0; i < word.n; i++)
        if (!is(word.p[i]))
            return false;
    return true;
}

static bool is_id(struct str word, size_t hex_min)
{
    if (word.n > 2 && word.p[0] == '0' && ascii_lower(word.p[1]) == 'x')
        return true;
    return is_all(word, is_digit) || (word.n >= hex_min && has_digit(word) && is_all(word, is_hex_char));
}

static void put_without_numbers(struct text *out, struct str word)
{
    for (size_t i = 0; i < word.n; i++) {
        if (is_digit(word.p[i]))
            put_star(out);
        else
            put(out, word.p[i]);
    }
}

enum wording { OF_PATH, OF_ERROR };

static void put_general(struct text *out, struct str s, enum wording wording)
{
    for (size_t at = 0; at < s.n;) {
        size_t end = at;
        while (end < s.n && is_word_char(s.p[end]))
            end++;
        struct str word = str_sub(s, at, end), rest = str_sub(s, at, s.n);
        if (end == at) {
            put(out, s.p[end++]);
        } else if (is_uuid(rest)) {
            put_star(out);
            end = at + UUID_CHARS;
        } else if (is_id(word, wording == OF_PATH ? ID_HEX_MIN : ERROR_HEX_MIN)) {
            put_star(out);
        } else if (wording == OF_PATH) {
            put_str(out, word);
        } else {
            put_without_numbers(out, word);
        }
        at = end;
    }
}

/* ---- places ---- */

static void put_url(struct text *out, const struct task *t)
{
    struct target_url u;
    char host[TARGET_HOST_MAX];
    if (!target_url_read(t, &u))
        return;
    for (size_t i = 0; i < u.scheme.n; i++)
        put(out, ascii_lower(u.scheme.p[i]));
    put_str(out, S("://"));
    put_str(out, target_url_host(&u, host));
    put_general(out, u.path, OF_PATH);
}

/* A broker may be written as a URL with a password in it. */
static struct str without_user(struct str broker)
{
    size_t from = 0, scheme = 0;
    for (size_t i = 0; i < broker.n; i++) {
        if (broker.p[i] == ':' && scheme == 0)
            scheme = i;
        if (broker.p[i] == '@')
            from = i + 1;
    }
    return scheme ? str_sub(broker, from, broker.n) : broker;
}

static void put_config(struct text *out, const struct task *t)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct error e;
    if (json_parse(t->target_config, &doc, &e))
        return;
    if (t->target == TARGET_MESSAGE) {
        put_str(out, without_user(json_text_at(doc.root, "broker")));
        put(out, ' ');
        put_str(out, json_text_at(doc.root, "destination"));
    } else {
        put_str(out, json_text_at(doc.root, t->target == TARGET_COMMAND ? "argv[0]" : "workflow"));
    }
}

struct str fingerprint_place(const struct task *t, struct arena *a)
{
    char place[PLACE_MAX + 4]; /* so that it can be cut between characters */
    struct text out = { place, 0, sizeof place };
    struct str ret;
    switch (t->target) {
    case TARGET_HTTP: put_url(&out, t); break;
    case TARGET_MESSAGE:
    case TARGET_COMMAND:
    case TARGET_WORKFLOW: put_config(&out, t); break;
    case TARGET_WORKER: put_str(&out, t->queue); break;
    case TARGET_NOOP: break;
    }
    struct str whole = str_utf8_cut((struct str){ place, out.n }, PLACE_MAX);
    return arena_str(a, whole, &ret) ? ret : S("");
}

struct fingerprint fingerprint_of(enum target_kind target, struct str place, int http_status, struct str error)
{
    char text[PLACE_MAX + ERROR_LOOKED_AT + 64];
    size_t n = (size_t)snprintf(text, 64, "%s %d ", target_kind_name(target), http_status);
    struct text out = { text, n, sizeof text };
    put_str(&out, str_sub(place, 0, min_of(place.n, (size_t)PLACE_MAX)));
    put(&out, '\n');
    put_general(&out, str_sub(error, 0, min_of(error.n, (size_t)ERROR_LOOKED_AT)), OF_ERROR);
    struct fingerprint ret;
    snprintf(ret.text, sizeof ret.text, "%016llx",
             (unsigned long long)hash_bytes(HASH_STABLE, (struct str){ text, out.n }));
    return ret;
}
