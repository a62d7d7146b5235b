/* SipHash-2-4 with 64 bits of output: two rounds for each word of eight bytes, four rounds at the end. Words are always
 * read as little-endian, so that the value is the same on every machine. */
#include "base/hash.h"

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t hash_rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void hash_add_rounds(struct sip *s, int count)
{
    while (count-- > 0) {
        s->v0 += s->v1;
        s->v1 = hash_rotate(s->v1, 13) ^ s->v0;
        s->v0 = hash_rotate(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = hash_rotate(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = hash_rotate(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = hash_rotate(s->v1, 17) ^ s->v2;
        s->v2 = hash_rotate(s->v2, 32);
    }
}

static void hash_add_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    hash_add_rounds(s, 2);
    s->v0 ^= word;
}

static uint64_t hash_read_word(const unsigned char *p, size_t n)
{
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)p[i] << (8 * i);
    return word;
}

uint64_t hash_bytes(struct hash_key key, struct str bytes)
{
    struct sip s = {
        .v0 = key.k0 ^ 0x736f6d6570736575, /* "somepseudorandomlygeneratedbytes" */
        .v1 = key.k1 ^ 0x646f72616e646f6d,
        .v2 = key.k0 ^ 0x6c7967656e657261,
        .v3 = key.k1 ^ 0x7465646279746573,
    };
    const unsigned char *p = (const unsigned char *)bytes.p;
    size_t left = bytes.n;
    for (; left >= 8; left -= 8, p += 8)
        hash_add_word(&s, hash_read_word(p, 8));
    hash_add_word(&s, hash_read_word(p, left) | (uint64_t)bytes.n << 56); /* the last word carries the length */
    s.v2 ^= 0xff;
    hash_add_rounds(&s, 4);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
