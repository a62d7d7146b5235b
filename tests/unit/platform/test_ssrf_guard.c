#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "check.h"
#include "platform/ssrf_guard.h"

static struct address public_address(int last)
{
    return (struct address){ .b = { 8, 8, 4, (uint8_t)last } };
}

/* Gives this network namespace one more address. */
static void add_own_address(int fd, int last)
{
    struct ifreq request = { 0 };
    struct sockaddr_in *to = (struct sockaddr_in *)(void *)&request.ifr_addr;
    struct address a = public_address(last);
    snprintf(request.ifr_name, sizeof request.ifr_name, "lo:%d", last);
    to->sin_family = AF_INET;
    memcpy(&to->sin_addr, a.b, 4);
    assert_int_equal(ioctl(fd, SIOCSIFADDR, &request), 0);
}

/* More than 64, too. */
static void addresses_that_the_machine_gets_later_are_blocked(void **state)
{
    (void)state;
    if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
        skip(); /* not permitted here */
    struct guard g;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    guard_init(&g, &(struct guard_setup){ 0 });
    for (int i = 1; i <= 100; i++) {
        assert_true(guard_allows_address(&g, public_address(i), 80));
        add_own_address(fd, i);
        assert_false(guard_allows_address(&g, public_address(i), 80));
    }
    assert_false(guard_allows_address(&g, public_address(1), 80));
    close(fd);
    guard_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(addresses_that_the_machine_gets_later_are_blocked) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
