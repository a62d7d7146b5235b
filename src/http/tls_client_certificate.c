/* Who a client is, by its certificate: the names in it, and until when it is valid. */
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "http/tls_internal.h"

static const char *const tls_name_kinds[] = {
#define X(id, name) [TLS_NAME_##id] = name,
    TLS_NAME_MAP(X)
#undef X
};

const char *tls_name_kind_text(enum tls_name_kind kind)
{
    return tls_name_kinds[kind];
}

bool tls_name_parse(struct str text, struct tls_name *ret)
{
    struct str rest = text, kind;
    if (!str_cut(&rest, ':', &kind) || rest.n == 0 || rest.n > TLS_NAME_BYTES_MAX)
        return false;
    for (enum tls_name_kind k = 0; k < TLS_NAME_KINDS; k++)
        if (str_eq(kind, str_from(tls_name_kinds[k]))) {
            *ret = (struct tls_name){ k, rest };
            return true;
        }
    return false;
}

bool tls_name_equal(const struct tls_name *a, const struct tls_name *b)
{
    return a->kind == b->kind && (a->kind == TLS_NAME_DNS ? str_eq_nocase(a->text, b->text) : str_eq(a->text, b->text));
}

int64_t tls_time_ms(const ASN1_TIME *t)
{
    enum { DAY_MS = 86400000 };
    int days, seconds;
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int good = epoch && ASN1_TIME_diff(&days, &seconds, epoch, t);
    ASN1_TIME_free(epoch);
    return good ? (int64_t)days * DAY_MS + (int64_t)seconds * 1000 : INT64_MIN;
}

/* The text of a name of this kind; p is NULL: it is of another kind, or holds more than visible characters. */
static struct str tls_name_text(const GENERAL_NAME *name, enum tls_name_kind kind)
{
    static const int types[] = { [TLS_NAME_URI] = GEN_URI, [TLS_NAME_DNS] = GEN_DNS, [TLS_NAME_EMAIL] = GEN_EMAIL };
    if (name->type != types[kind])
        return (struct str){ 0 };
    const ASN1_STRING *s = name->d.ia5; /* the same type for the three kinds */
    struct str text = { (const char *)ASN1_STRING_get0_data(s), (size_t)ASN1_STRING_length(s) };
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] <= ' ' || text.p[i] > '~') /* a NUL, for example, would hide the rest of the name */
            return (struct str){ 0 };
    return text.n && text.n <= TLS_NAME_BYTES_MAX ? text : (struct str){ 0 };
}

static void tls_client_add_names(struct tls_client *c, const GENERAL_NAMES *all, enum tls_name_kind kind)
{
    for (int i = 0; i < sk_GENERAL_NAME_num(all) && c->name_count < TLS_NAMES_MAX; i++) {
        struct str text = tls_name_text(sk_GENERAL_NAME_value(all, i), kind);
        if (!text.p)
            continue;
        struct str copy = { memcpy(xmalloc(text.n), text.p, text.n), text.n };
        c->names[c->name_count++] = (struct tls_name){ kind, copy };
    }
}

struct tls_client *tls_client_new(const X509 *certificate)
{
    struct tls_client *c = xnew(*c);
    c->expires_ms = tls_time_ms(X509_get0_notAfter(certificate));
    GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (enum tls_name_kind k = 0; all && k < TLS_NAME_KINDS; k++)
        tls_client_add_names(c, all, k);
    GENERAL_NAMES_free(all);
    return c;
}

void tls_client_free(struct tls_client *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->name_count; i++)
        free_const(c->names[i].text.p);
    free(c);
}
