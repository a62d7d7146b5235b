/* The lock guards the context and what is known of its files. A session takes a reference of its context, so the old
 * context lives as long as its last connection. */
#include "http/tls.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "http/tls_internal.h"

enum { FILES = 3 };

/* What identifies the content of a file without reading it. Zero: there is no file. */
struct tls_stamp {
    uint64_t inode, device;
    int64_t bytes, changed_s, changed_ns;
};

struct tls {
    struct tls_files files;
    char *paths[FILES]; /* cert, key, client_ca */
    pthread_mutex_t lock;
    SSL_CTX *context;
    struct tls_stamp stamps[FILES];
    struct tls_view view;
};

static struct tls_stamp tls_stamp_of(const char *path)
{
    struct stat s;
    if (!path || stat(path, &s))
        return (struct tls_stamp){ 0 };
    return (struct tls_stamp){ s.st_ino, s.st_dev, s.st_size, s.st_ctim.tv_sec, s.st_ctim.tv_nsec };
}

static bool tls_stamp_equal(const struct tls_stamp *a, const struct tls_stamp *b)
{
    return a->inode == b->inode && a->device == b->device && a->bytes == b->bytes && a->changed_s == b->changed_s &&
           a->changed_ns == b->changed_ns;
}

bool tls_files_have_changed(struct tls *t)
{
    bool changed = false;
    for (size_t i = 0; i < FILES; i++) {
        struct tls_stamp now = tls_stamp_of(t->paths[i]);
        pthread_mutex_lock(&t->lock);
        changed |= !tls_stamp_equal(&now, &t->stamps[i]);
        pthread_mutex_unlock(&t->lock);
    }
    return changed;
}

enum err tls_load(struct tls *t, int64_t now_ms, struct error *e)
{
    struct tls_stamp stamps[FILES]; /* from before the files are read: a change while they are read is seen later */
    SSL_CTX *made = NULL;
    for (size_t i = 0; i < FILES; i++)
        stamps[i] = tls_stamp_of(t->paths[i]);
    enum err rc = tls_context_new(&t->files, now_ms, &made, e);
    pthread_mutex_lock(&t->lock);
    memcpy(t->stamps, stamps, sizeof stamps); /* also of bad files: they are tried again when they change */
    SSL_CTX *old = NULL;
    if (rc == ERR_OK) {
        old = t->context;
        t->context = made;
        t->view = (struct tls_view){ tls_time_ms(X509_get0_notAfter(SSL_CTX_get0_certificate(made))), now_ms };
    }
    pthread_mutex_unlock(&t->lock);
    SSL_CTX_free(old);
    return rc;
}

enum err tls_new(const struct tls_files *files, int64_t now_ms, struct tls **ret, struct error *e)
{
    struct tls *t = xnew(*t);
    pthread_mutex_init(&t->lock, NULL);
    t->paths[0] = files->cert ? xstrdup(files->cert) : NULL;
    t->paths[1] = files->key ? xstrdup(files->key) : NULL;
    t->paths[2] = files->client_ca ? xstrdup(files->client_ca) : NULL;
    t->files = (struct tls_files){ t->paths[0], t->paths[1], t->paths[2], files->require_client };
    enum err rc = tls_load(t, now_ms, e);
    if (rc)
        tls_free(t);
    else
        *ret = t;
    return rc;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->context);
    for (size_t i = 0; i < FILES; i++)
        free(t->paths[i]);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

enum err tls_files_check(const struct tls_files *files, int64_t now_ms, struct error *e)
{
    SSL_CTX *made = NULL;
    enum err rc = tls_context_new(files, now_ms, &made, e);
    SSL_CTX_free(made);
    return rc;
}

struct tls_view tls_view(struct tls *t)
{
    pthread_mutex_lock(&t->lock);
    struct tls_view v = t->view;
    pthread_mutex_unlock(&t->lock);
    return v;
}

SSL *tls_accept_new(struct tls *t)
{
    pthread_mutex_lock(&t->lock);
    SSL *s = SSL_new(t->context);
    pthread_mutex_unlock(&t->lock);
    assert(s);
    return s;
}
