/* The parts that differ between failures of the same cause are replaced by '*', word by word. A word is a run of
 * letters and digits. In a path only words that are ids as a whole are replaced (v2 stays); in an error every number is
 * replaced. */
#include "core/task/fingerprint.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/json/json.h"
#include "core/target/target_url.h"

enum { UUID_CHARS = 36, ID_HEX_MIN = 16, ERROR_HEX_MIN = 8, ERROR_LOOKED_AT = 512 };

/* A text of limited size. Characters that do not fit are dropped. */
struct fingerprint_text {
    char *p;
    size_t n, max;
};

static void fingerprint_put_char(struct fingerprint_text *out, char c)
{
    if (out->n < out->max)
        out->p[out->n++] = c;
}

static void fingerprint_put_str(struct fingerprint_text *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        fingerprint_put_char(out, s.p[i]);
}

/* Several in a row mean the same as one. */
static void fingerprint_put_star(struct fingerprint_text *out)
{
    if (!out->n || out->p[out->n - 1] != '*')
        fingerprint_put_char(out, '*');
}

/* ---- words ---- */

static bool fingerprint_is_word_char(char c)
{
    return is_digit(c) || is_alpha(c);
}

static bool fingerprint_is_hex_char(char c)
{
    return is_digit(c) || (is_alpha(c) && ascii_lower(c) <= 'f');
}

static bool fingerprint_is_uuid(struct str s)
{
    struct uuid id;
    return s.n >= UUID_CHARS && (s.n == UUID_CHARS || !fingerprint_is_word_char(s.p[UUID_CHARS])) &&
           uuid_parse(str_sub(s, 0, UUID_CHARS), &id);
}

static bool fingerprint_has_digit(struct str word)
{
    for (size_t i = 0; i < word.n; i++)
        if (is_digit(word.p[i]))
            return true;
    return false;
}

static bool fingerprint_all_chars(struct str word, bool (*is)(char))
{
    for (size_t i = 0; i < word.n; i++)
        if (!is(word.p[i]))
            return false;
    return true;
}

static bool fingerprint_is_id(struct str word, size_t hex_min)
{
    if (word.n > 2 && word.p[0] == '0' && ascii_lower(word.p[1]) == 'x')
        return true;
    return fingerprint_all_chars(word, is_digit) ||
           (word.n >= hex_min && fingerprint_has_digit(word) && fingerprint_all_chars(word, fingerprint_is_hex_char));
}

static void fingerprint_put_without_numbers(struct fingerprint_text *out, struct str word)
{
    for (size_t i = 0; i < word.n; i++) {
        if (is_digit(word.p[i]))
            fingerprint_put_star(out);
        else
            fingerprint_put_char(out, word.p[i]);
    }
}

enum fingerprint_source { OF_PATH, OF_ERROR };

static void fingerprint_put_general(struct fingerprint_text *out, struct str s, enum fingerprint_source wording)
{
    for (size_t at = 0; at < s.n;) {
        size_t end = at;
        while (end < s.n && fingerprint_is_word_char(s.p[end]))
            end++;
        struct str word = str_sub(s, at, end), rest = str_sub(s, at, s.n);
        if (end == at) {
            fingerprint_put_char(out, s.p[end++]);
        } else if (fingerprint_is_uuid(rest)) {
            fingerprint_put_star(out);
            end = at + UUID_CHARS;
        } else if (fingerprint_is_id(word, wording == OF_PATH ? ID_HEX_MIN : ERROR_HEX_MIN)) {
            fingerprint_put_star(out);
        } else if (wording == OF_PATH) {
            fingerprint_put_str(out, word);
        } else {
            fingerprint_put_without_numbers(out, word);
        }
        at = end;
    }
}

/* ---- places ---- */

static void fingerprint_put_url(struct fingerprint_text *out, const struct task *t)
{
    struct target_url u;
    char text[TARGET_URL_MAX], host[TARGET_HOST_MAX];
    if (!target_url_read(t, text, &u))
        return;
    for (size_t i = 0; i < u.scheme.n; i++)
        fingerprint_put_char(out, ascii_lower(u.scheme.p[i]));
    fingerprint_put_str(out, S("://"));
    fingerprint_put_str(out, target_url_host(&u, host));
    fingerprint_put_general(out, u.path, OF_PATH);
}

/* A broker's address may hold a password. */
static struct str fingerprint_without_user(struct str broker)
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

static void fingerprint_put_config(struct fingerprint_text *out, const struct task *t)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct error e;
    if (json_parse(t->target_config, &doc, &e))
        return;
    if (t->target == TARGET_MESSAGE) {
        fingerprint_put_str(out, fingerprint_without_user(json_text_at(doc.root, "broker")));
        fingerprint_put_char(out, ' ');
        fingerprint_put_str(out, json_text_at(doc.root, "destination"));
    } else {
        fingerprint_put_str(out, json_text_at(doc.root, t->target == TARGET_COMMAND ? "argv[0]" : "workflow"));
    }
}

struct str fingerprint_place(const struct task *t, struct arena *a)
{
    char place[PLACE_MAX + 4]; /* 4 more, so that the text can be cut between UTF-8 characters */
    struct fingerprint_text out = { place, 0, sizeof place };
    struct str ret;
    switch (t->target) {
    case TARGET_HTTP: fingerprint_put_url(&out, t); break;
    case TARGET_MESSAGE:
    case TARGET_COMMAND:
    case TARGET_WORKFLOW: fingerprint_put_config(&out, t); break;
    case TARGET_WORKER: fingerprint_put_str(&out, t->queue); break;
    case TARGET_NOOP: break;
    }
    struct str whole = str_utf8_cut((struct str){ place, out.n }, PLACE_MAX);
    return arena_str(a, whole, &ret) ? ret : S("");
}

struct fingerprint fingerprint_of(enum target_kind target, struct str place, int http_status, struct str error)
{
    char text[PLACE_MAX + ERROR_LOOKED_AT + 64];
    size_t n = (size_t)snprintf(text, 64, "%s %d ", target_kind_name(target), http_status);
    struct fingerprint_text out = { text, n, sizeof text };
    fingerprint_put_str(&out, str_sub(place, 0, min_of(place.n, (size_t)PLACE_MAX)));
    fingerprint_put_char(&out, '\n');
    fingerprint_put_general(&out, str_sub(error, 0, min_of(error.n, (size_t)ERROR_LOOKED_AT)), OF_ERROR);
    struct fingerprint ret;
    snprintf(ret.text, sizeof ret.text, "%016llx",
             (unsigned long long)hash_bytes(HASH_STABLE, (struct str){ text, out.n }));
    return ret;
}
