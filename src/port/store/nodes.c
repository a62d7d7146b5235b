#include "port/store/nodes.h"

struct share_subject share_subject(struct str key)
{
    int64_t tenant;
    size_t end = str_find(key, ':', min_of(key.n, (size_t)2));
    if (key.n < 3 || key.p[1] != ':' || !str_to_i64(str_sub(key, 2, end), 1, INT32_MAX, &tenant))
        return (struct share_subject){ 0 };
    if (key.p[0] == 't' && end == key.n)
        return (struct share_subject){ .tenant = (int32_t)tenant };
    if (key.p[0] == 'q' && end + 1 < key.n)
        return (struct share_subject){ (int32_t)tenant, str_sub(key, end + 1, key.n) };
    return (struct share_subject){ 0 };
}

bool share_is_about(const struct share_subject *subject, struct lane lane)
{
    return subject->tenant && subject->tenant == lane.tenant &&
           (subject->queue.n == 0 || str_eq(subject->queue, lane.queue));
}
