#pragma once
/* base/str.h - a borrowed string view: a pointer and a length. The bytes need not end in NUL.
 *
 * Views are passed by value and own nothing. Text that must outlive its source is copied into an arena. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

struct str {
    const char *p;
    size_t n;
};

#define S(literal) ((struct str){ "" literal, sizeof(literal) - 1 })
#define STR_FMT    "%.*s" /* printf("…" STR_FMT, STR_ARG(s)) */
#define STR_ARG(s) (int)(s).n, (s).p

static inline struct str str_from(const char *cstr)
{
    return (struct str){ cstr, strlen(cstr) };
}

static inline struct str str_sub(struct str s, size_t from, size_t to)
{
    return (struct str){ from ? s.p + from : s.p,
                         to - from }; /* s may be { NULL, 0 }: adding even 0 to NULL is undefined */
}

bool str_eq(struct str a, struct str b);
int str_cmp(struct str a, struct str b);                 /* like memcmp; a prefix sorts first */
bool str_eq_nocase(struct str a, struct str b);          /* ASCII letters only */
bool str_contains_nocase(struct str s, struct str part); /* likewise */
bool str_starts(struct str s, struct str prefix);
bool str_has_control(struct str s); /* C0, DEL, C1, and the separators of lines and paragraphs, in UTF-8 */
struct str str_trim(struct str s);  /* removes spaces and tabs at both ends */

/* Index of the first c at or after `from`; s.n if there is none. */
size_t str_find(struct str s, char c, size_t from);

/* Splits at the first sep: *ret_piece is the text before it, *rest becomes the text after it (empty if there is no
 * sep). Returns false once *rest is empty, so an empty text has no pieces.
 * Loop: while (str_cut(&rest, ',', &piece)) … */
bool str_cut(struct str *rest, char sep, struct str *ret_piece);

/* Parses the whole text as a decimal integer within [min, max]. Accepts a leading '-' but no '+' and no blanks. */
bool str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret);

/* How many bytes were inserted, dropped, replaced or swapped with their neighbour, ignoring ASCII case, for "did you
 * mean" suggestions. SIZE_MAX if a text is longer than 64 bytes. */
size_t str_distance(struct str a, struct str b);

/* True if all of s is well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF). */
bool str_is_utf8(struct str s);
size_t str_utf8_count(struct str s); /* characters of valid UTF-8 */

/* Length of the well-formed UTF-8 sequence that starts at `at` (< s.n), or 0 if there is none. */
size_t str_utf8_at(struct str s, size_t at);

/* str_code_point decodes the sequence of `len` bytes at `at`, as str_utf8_at returns it (> 0). is_hidden_char is true
 * for characters that a terminal or an editor interprets instead of showing them, or that have no width, so that two
 * texts look alike: controls, line separators, bidirectional controls, joiners, soft hyphens, tags. */
unsigned str_code_point(struct str s, size_t at, size_t len);
bool is_hidden_char(unsigned code_point);
bool str_has_hidden(struct str s); /* more than str_has_control */

/* The longest prefix of s that has at most max bytes and splits no character. */
struct str str_utf8_cut(struct str s, size_t max);

/* Copies s and a NUL to *at and advances *at. Used to keep several texts in one allocation, whose size is the sum of
 * str_pack_size. An empty text takes no space. */
struct str str_pack(struct str s, char **at);
static inline size_t str_pack_size(struct str s)
{
    return s.n ? s.n + 1 : 0;
}

/* Decodes percent escapes ("%40" is '@') and writes the text with a NUL behind it to out, which may be s.p itself.
 * False: an escape is not two hexadecimal digits, the text has a NUL, or out is too small. out is then undefined. */
bool str_percent_decode(struct str s, char *out, size_t size);

/* Writes the first parameter of this name in the query of a URL ("…?name=value&…") to out, both decoded. False: there is
 * none, or it does not fit. */
bool str_url_parameter(struct str url, const char *name, char *out, size_t size);

/* Writes a character for an error sentence: 'x', or "byte 0x07" if it is not printable ASCII. Returns out. */
enum { STR_CHAR_TEXT = 16 };
const char *str_show_char(char c, char out[STR_CHAR_TEXT]);

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static inline bool is_alpha(char c) /* ASCII */
{
    char l = ascii_lower(c);
    return l >= 'a' && l <= 'z';
}

/* 0 to 15, or -1 if c is not a hexadecimal digit. */
static inline int hex_value(char c)
{
    char l = ascii_lower(c);
    return is_digit(l) ? l - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}
