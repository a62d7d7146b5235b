#pragma once
/* broker/redis/url.h - an address of Redis (broker/redis/redis.h) in its parts. */
#include "broker/redis/link.h"

enum {
    REDIS_HOSTS_MAX = 16,
    REDIS_TEXT_MAX = 256, /* a user name, a password, the name of a Sentinel master */
    REDIS_PREFIX_MAX = 64,
    REDIS_FILE_MAX = 1024, /* the path of a certificate */
};

struct redis_address {
    struct redis_host hosts[REDIS_HOSTS_MAX];
    size_t host_count;
    char user[REDIS_TEXT_MAX], password[REDIS_TEXT_MAX], sentinel_password[REDIS_TEXT_MAX];
    char master[REDIS_TEXT_MAX]; /* empty: the hosts are not Sentinels */
    int database;
    char prefix[REDIS_PREFIX_MAX]; /* all keys begin with it, in braces: one hash slot */
    bool tls;
    char cacert[REDIS_FILE_MAX], cert[REDIS_FILE_MAX], key[REDIS_FILE_MAX]; /* empty: not given */
};

enum err redis_address_read(struct str url, struct redis_address *ret, struct error *e) must_use;
