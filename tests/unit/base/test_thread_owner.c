#include "check.h"

#include <pthread.h>

#include "base/thread_owner.h"

static void *asks_on_another_thread(void *owner)
{
    return thread_owner_is_caller(owner) ? owner : NULL;
}

static bool another_thread_may(struct thread_owner *o)
{
    pthread_t thread;
    void *answer = NULL;
    assert_int_equal(pthread_create(&thread, NULL, asks_on_another_thread, o), 0);
    assert_int_equal(pthread_join(thread, &answer), 0);
    return answer != NULL;
}

static void an_owner_that_nobody_took_refuses_nobody(void **state)
{
    (void)state;
    struct thread_owner o = { 0 };
    assert_true(thread_owner_is_caller(&o));
    assert_true(another_thread_may(&o));
}

static void only_the_thread_that_took_it_may_call(void **state)
{
    (void)state;
    struct thread_owner o = { 0 };
    thread_owner_take(&o);
    assert_owned(&o);
    assert_false(another_thread_may(&o));
}

static void a_dropped_owner_refuses_nobody(void **state)
{
    (void)state;
    struct thread_owner o = { 0 };
    thread_owner_take(&o);
    thread_owner_drop(&o);
    assert_true(another_thread_may(&o));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_that_nobody_took_refuses_nobody),
        cmocka_unit_test(only_the_thread_that_took_it_may_call),
        cmocka_unit_test(a_dropped_owner_refuses_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
