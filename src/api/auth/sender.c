#include "api/auth/sender.h"

enum err sender_read(struct request *q, struct reader *r, struct str sender, struct str *ret_name, struct str *ret_key,
                     struct error *e)
{
    struct api_key key;
    enum err rc = reader_key(r, sender, &q->arena, &key, e);
    bool is_key = rc == ERR_OK && key.tenant == q->who.tenant;
    *ret_name = is_key && key.name.n ? key.name : sender;
    *ret_key = is_key ? key.id : (struct str){ NULL, 0 };
    return rc == ERR_NOT_FOUND ? ERR_OK : rc; /* it was revoked a moment ago */
}

enum err sender_name_read(struct request *q, struct reader *r, struct str sender, struct str *ret, struct error *e)
{
    struct str key;
    return sender_read(q, r, sender, ret, &key, e);
}

enum err sender_own_name(struct request *q, struct reader *r, struct str *ret, struct error *e)
{
    return sender_name_read(q, r, str_from(q->who.key_id), ret, e);
}
