/* The framing of a chunked body is a table of states. The data of a chunk is not looked at. */
#include <assert.h>

#include "http/parse.h"

enum { DIGITS_MAX = 8 };

enum chunk_state { SIZE_FIRST, SIZE_MORE, SIZE_LF, DATA, DATA_CR, DATA_LF, LAST_CR, LAST_LF, END, BAD, STATE_COUNT };
enum chunk_class { CLASS_HEX, CLASS_CR, CLASS_LF, CLASS_BLANK, CLASS_OTHER, CLASS_COUNT };

static const uint8_t chunk_moves[STATE_COUNT][CLASS_COUNT] = {
    /*               HEX        CR       LF          BLANK ; OTHER */
    [SIZE_FIRST] = { SIZE_MORE, BAD, BAD, BAD, BAD }, [SIZE_MORE] = { SIZE_MORE, SIZE_LF, BAD, BAD, BAD },
    [SIZE_LF] = { BAD, BAD, DATA, BAD, BAD }, /* LAST_CR, if the size was 0 */
    [DATA_CR] = { BAD, DATA_LF, BAD, BAD, BAD },      [DATA_LF] = { BAD, BAD, SIZE_FIRST, BAD, BAD },
    [LAST_CR] = { BAD, LAST_LF, BAD, BAD, BAD },      [LAST_LF] = { BAD, BAD, END, BAD, BAD },
};

/* Why a byte that is not expected in a state is refused. */
static const enum http_bad chunk_bads[STATE_COUNT] = {
    [SIZE_FIRST] = HTTP_BAD_CHUNK,  [SIZE_MORE] = HTTP_BAD_CHUNK,   [SIZE_LF] = HTTP_BAD_CHUNK,
    [DATA_CR] = HTTP_BAD_CHUNK_END, [DATA_LF] = HTTP_BAD_CHUNK_END, [LAST_CR] = HTTP_BAD_TRAILER,
    [LAST_LF] = HTTP_BAD_TRAILER,
};

static enum chunk_class chunk_class_of(char c)
{
    if (hex_value(c) >= 0)
        return CLASS_HEX;
    return c == '\r' ? CLASS_CR : c == '\n' ? CLASS_LF : c == ';' || c == ' ' || c == '\t' ? CLASS_BLANK : CLASS_OTHER;
}

static void chunk_step(struct http_chunks *c, char byte)
{
    enum chunk_class class = chunk_class_of(byte);
    enum chunk_state from = c->state;
    c->state = chunk_moves[from][class];
    if (c->state == SIZE_MORE) {
        c->left = c->left * 16 + (uint64_t)hex_value(byte);
        c->digits++;
        if (c->digits > DIGITS_MAX)
            c->state = BAD;
    }
    if (c->state == BAD)
        c->bad = from == SIZE_MORE && class == CLASS_BLANK ? HTTP_BAD_CHUNK_EXTENSION : chunk_bads[from];
    if (c->state == DATA) {
        c->digits = 0;
        c->state = c->left ? DATA : LAST_CR;
    }
}

enum http_chunk http_chunks_read(struct http_chunks *c, struct str *text, struct str *ret_data)
{
    while (text->n && c->state != END && c->state != BAD) {
        if (c->state != DATA) {
            chunk_step(c, text->p[0]);
            *text = str_sub(*text, 1, text->n);
            continue;
        }
        size_t n = (size_t)min_of((uint64_t)text->n, c->left);
        *ret_data = str_sub(*text, 0, n);
        *text = str_sub(*text, n, text->n);
        c->left -= n;
        c->state = c->left ? DATA : DATA_CR;
        return HTTP_CHUNK_DATA;
    }
    return c->state == END ? HTTP_CHUNK_END : c->state == BAD ? HTTP_CHUNK_BAD : HTTP_CHUNK_MORE;
}
