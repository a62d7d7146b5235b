#include "http/peers.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include "port/crypto.h"

struct peer_count {
    char key[PEER_KEY];
    size_t n;
};

const char *peer_text(const union peer *p, char out[PEER_TEXT])
{
    char host[NI_MAXHOST], port[8];
    bool v6 = p->any.sa_family == AF_INET6;
    if (getnameinfo(&p->any, v6 ? sizeof p->v6 : sizeof p->v4, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return "unknown";
    snprintf(out, PEER_TEXT, v6 ? "[%.60s]:%s" : "%.60s:%s", host, port);
    return out;
}

const char *peer_address(const union peer *p, char out[PEER_TEXT])
{
    bool v6 = p->any.sa_family == AF_INET6, mapped = v6 && IN6_IS_ADDR_V4MAPPED(&p->v6.sin6_addr);
    const void *address = mapped ? (const void *)(p->v6.sin6_addr.s6_addr + 12)
                          : v6   ? (const void *)&p->v6.sin6_addr
                                 : (const void *)&p->v4.sin_addr;
    return inet_ntop(v6 && !mapped ? AF_INET6 : AF_INET, address, out, PEER_TEXT) ? out : "unknown";
}

bool peer_is_loopback(const union peer *p)
{
    enum { LOOPBACK_NET = 127 };
    const uint8_t *v4 = (const uint8_t *)&p->v4.sin_addr;
    if (p->any.sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&p->v6.sin6_addr))
        return IN6_IS_ADDR_LOOPBACK(&p->v6.sin6_addr);
    if (p->any.sa_family == AF_INET6)
        v4 = p->v6.sin6_addr.s6_addr + 12;
    return v4[0] == LOOPBACK_NET;
}

/* An IPv4 address in IPv6 form counts as the IPv4 address. */
struct str peer_key(const union peer *p, char key[PEER_KEY])
{
    memset(key, 0, PEER_KEY);
    if (p->any.sa_family != AF_INET6)
        memcpy(key, &p->v4.sin_addr, sizeof p->v4.sin_addr);
    else if (IN6_IS_ADDR_V4MAPPED(&p->v6.sin6_addr))
        memcpy(key, p->v6.sin6_addr.s6_addr + 12, sizeof p->v4.sin_addr);
    else
        memcpy(key, p->v6.sin6_addr.s6_addr, PEER_KEY);
    return (struct str){ key, PEER_KEY };
}

void peers_init(struct peers *p, size_t max)
{
    struct hash_key key;
    crypto_random(&key, sizeof key);
    p->max = max;
    pthread_mutex_init(&p->lock, NULL);
    map_init(&p->counts, key);
}

void peers_release(struct peers *p)
{
    assert(p->counts.n == 0);
    map_release(&p->counts);
    pthread_mutex_destroy(&p->lock);
}

bool peers_add(struct peers *p, const union peer *peer)
{
    char key[PEER_KEY];
    pthread_mutex_lock(&p->lock);
    struct peer_count *count = map_get(&p->counts, peer_key(peer, key));
    bool fits = !count || count->n < p->max;
    if (!count) {
        count = xnew(*count);
        map_put(&p->counts, peer_key(peer, count->key), count);
    }
    count->n += fits;
    pthread_mutex_unlock(&p->lock);
    return fits;
}

void peers_remove(struct peers *p, const union peer *peer)
{
    char key[PEER_KEY];
    pthread_mutex_lock(&p->lock);
    struct peer_count *count = map_get(&p->counts, peer_key(peer, key));
    assert(count && count->n > 0);
    count->n--;
    if (count->n == 0)
        free(map_remove(&p->counts, peer_key(peer, key)));
    pthread_mutex_unlock(&p->lock);
}
