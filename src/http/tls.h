#pragma once
/* http/tls.h - the certificates of a listener, and who its clients prove to be.
 *
 * A struct tls has one context at a time: certificate, key, client CAs and ticket keys. Loading again replaces the
 * context; connections that exist keep theirs. If the files cannot be used, the old context stays. All threads of a
 * server share the context, so a session that one thread made can be resumed on another.
 *
 * Any thread, unless a comment says otherwise. */
#include "base/err.h"
#include "base/str.h"

/* Paths of PEM files. They are copied. */
struct tls_files {
    const char *cert;      /* the certificate, then those of its issuers */
    const char *key;       /* of the certificate; not encrypted, not readable by everybody */
    const char *client_ca; /* authorities of client certificates; NULL: clients are not asked for one */
    bool require_client;   /* a client without certificate is refused in the handshake */
};

struct tls;

/* Errors have the field cert, key, client_ca or require_client, and name the file and the remedy. now_ms decides
 * whether the certificate has expired. tls_load: after an error the old context stays. */
enum err tls_new(const struct tls_files *files, int64_t now_ms, struct tls **ret, struct error *e) must_use;
enum err tls_load(struct tls *t, int64_t now_ms, struct error *e) must_use;
void tls_free(struct tls *t); /* NULL is fine; after the servers that use it */

/* Only the checks of tls_new. */
enum err tls_files_check(const struct tls_files *files, int64_t now_ms, struct error *e) must_use;

/* Whether a file is another one than at the last tls_load, by its inode, size and time of change. */
bool tls_files_have_changed(struct tls *t);

struct tls_view {
    int64_t expires_ms; /* of the certificate in use */
    int64_t loaded_ms;
};
struct tls_view tls_view(struct tls *t);

/* ---- client certificates ---- */

/* In the order in which they are looked up. */
#define TLS_NAME_MAP(X)                                                                                                \
    X(URI, "uri")                                                                                                      \
    X(DNS, "dns")                                                                                                      \
    X(EMAIL, "email")

enum tls_name_kind {
#define X(id, name) TLS_NAME_##id,
    TLS_NAME_MAP(X)
#undef X
        TLS_NAME_KINDS
};

enum { TLS_NAMES_MAX = 32, TLS_NAME_BYTES_MAX = 512 };

struct tls_name {
    enum tls_name_kind kind;
    struct str text;
};

/* The verified certificate of a client: its alternative names, by kind and then as the certificate lists them. */
struct tls_client {
    int64_t expires_ms; /* of the certificate */
    struct tls_name names[TLS_NAMES_MAX];
    size_t name_count;
};

/* "dns:worker.example" → kind and text; false: it is none. */
bool tls_name_parse(struct str text, struct tls_name *ret);
bool tls_name_equal(const struct tls_name *a, const struct tls_name *b); /* case counts, but not in DNS names */
const char *tls_name_kind_text(enum tls_name_kind kind);

void tls_client_free(struct tls_client *c); /* NULL is fine */
