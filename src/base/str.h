#pragma once
/* base/str.h - a borrowed view of bytes: a pointer and a length, never assumed to end in NUL.
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
    return (struct str){ from ? s.p + from : s.p, to - from }; /* s may be { NULL, 0 }, where even + 0 is undefined */
}

bool str_eq(struct str a, struct str b);
int str_cmp(struct str a, struct str b);        /* as memcmp; of two that begin alike, the shorter one is less */
bool str_eq_nocase(struct str a, struct str b); /* ASCII letters only */
bool str_starts(struct str s, struct str prefix);
struct str str_trim(struct str s); /* spaces and tabs off both ends */

/* Index of the first c at or after from; s.n when there is none. */
size_t str_find(struct str s, char c, size_t from);

/* Cuts the text before the first sep off *rest and returns it; *rest is what follows (empty when there was none).
 * Loop: while (str_cut(&rest, ',', &piece)) … ; false once rest is used up. An empty text gives no piece. */
bool str_cut(struct str *rest, char sep, struct str *ret_piece);

/* Whole text as a decimal integer within [min, max]; nothing else is accepted (no sign but '-', no blanks). */
bool str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret);

/* Levenshtein distance, ASCII case ignored, for "did you mean". Texts beyond 64 bytes count as far apart (SIZE_MAX). */
size_t str_distance(struct str a, struct str b);

/* True if all of s is well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF). */
bool str_is_utf8(struct str s);

/* Bytes of the well-formed UTF-8 sequence that starts at `at` (< s.n), or 0. */
size_t str_utf8_at(struct str s, size_t at);

/* The character of those `len` bytes (as str_utf8_at tells, > 0), and whether a terminal or an editor would act on it instead
 * of showing it: controls, line separators, changes of direction. */
unsigned str_code_point(struct str s, size_t at, size_t len);
bool is_hidden_char(unsigned code_point);

/* The longest start of s within max bytes that splits no character. */
struct str str_utf8_cut(struct str s, size_t max);

/* Copies s to *at, a NUL behind it, and moves *at on: for who keeps several texts in one piece of memory, which takes
 * str_pack_size of each. An empty text takes nothing. */
struct str str_pack(struct str s, char **at);
static inline size_t str_pack_size(struct str s)
{
    return s.n ? s.n + 1 : 0;
}

/* Decodes percent escapes ("%40" is '@') and writes the text with a NUL behind it to out, which may be s.p itself.
 * False: an escape is not two hexadecimal digits, the text has a NUL, or out is too small. out is then undefined. */
bool str_percent_decode(struct str s, char *out, size_t size);

/* Writes how an error shows a character: 'x', or "byte 0x07" for what is not printable ASCII. Returns out. */
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

/* 0 to 15, or -1 if c is no hexadecimal digit. */
static inline int hex_value(char c)
{
    char l = ascii_lower(c);
    return is_digit(l) ? l - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}
