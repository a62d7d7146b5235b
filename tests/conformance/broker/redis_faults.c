/* The queue on Redis when Redis is wiped, restarted, failed over, slow or gone. */
#include "redis_world.h"

static void a_wiped_queue_shows_another_epoch_and_knows_nothing(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    push(w, v, 2);
    struct taken got = take_some(w, 0, 1, 1000);
    assert_int_equal(got.tasks.n, 1);
    uint64_t before = look_at_last(w).epoch;
    assert_true(look_at_last(w).epoch == before);
    server_do(&w->server, "FLUSHALL");
    assert_true(look_at_last(w).epoch != before);
    assert_false(is_known(w, &v[0]) || is_known(w, &v[1]));
    renew_at_last(w, 0, &got.tasks.v[0]); /* its worker makes it known again */
    assert_true(is_known(w, &v[0]));
    push(w, v + 1, 2);
    assert_int_equal(take_some(w, 1, 5, 1000).tasks.n, 2);
    ack(w, 0, &v[0]);
    assert_false(is_known(w, &v[0]));
}

/* The worker blocks while all data is deleted, its group included. */
static void a_worker_that_waits_while_the_queue_is_wiped_is_heard_of_again(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    assert_int_equal(take_some(w, 0, 1, 10).tasks.n, 0);
    server_do(&w->server, "FLUSHALL");
    push(w, &t, 1);
    assert_int_equal(take_some(w, 0, 1, 1000).tasks.n, 1);
}

static void restarted_without_its_data_it_is_as_if_wiped(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 2);
    struct taken got = take_some(w, 0, 1, 1000);
    uint64_t before = look_at_last(w).epoch;
    server_stop(&w->server, SIGKILL);
    struct queue_state none;
    struct error e = { 0 };
    int64_t start = steady_ms();
    assert_int_equal(queue_stats(w->control, &none, &e), ERR_UNAVAILABLE);
    assert_true(steady_ms() - start < 2500);
    server_start(&w->server);
    renew_at_last(w, 0, &got.tasks.v[0]);
    assert_true(look_at_last(w).epoch != before);
    assert_true(is_known(w, &got.tasks.v[0]));
    assert_false(is_known(w, &v[1]));
}

/* Tasks that waited when the server came back are not delivered. They time out after workers had time to renew the
 * tasks that they run. */
static struct timed_out_delivery doubtful_timeout(struct world *w)
{
    struct delivery_timeouts l = { 0 };
    struct error e = { 0 };
    for (int64_t end = steady_ms() + ENOUGH_MS; l.n == 0 && steady_ms() < end;) {
        assert_int_equal(take_some(w, 1, 5, 100).tasks.n, 0);
        assert_ok(queue_timed_out(w->control, 0, &w->arena, &l, &e), &e);
    }
    assert_true(l.n > 0);
    return l.v[0];
}

/* Restored from disk, which may be older than the crash: a waiting task may have run. */
static void restarted_with_its_data_what_may_run_once_only_lapses(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    v[1].delivery = DELIVER_AT_MOST_ONCE;
    push(w, v, 2);
    uint64_t before = look_at_last(w).epoch;
    server_stop(&w->server, SIGKILL);
    server_start(&w->server);
    assert_true(look_at_last(w).epoch != before);
    assert_true(is_known(w, &v[0]) && is_known(w, &v[1]));
    renew_at_last(w, 1, &v[0]);
    ack(w, 1, &v[0]);
    struct task later = some_task(w);
    later.delivery = DELIVER_AT_MOST_ONCE;
    push(w, &later, 1);
    struct taken got = take_some(w, 0, 5, 1000);
    assert_int_equal(got.tasks.n, 1);
    assert_true(uuid_eq(got.tasks.v[0].id, later.id));
    ack(w, 0, &later);
    struct timed_out_delivery gone = doubtful_timeout(w);
    assert_true(uuid_eq(gone.task.id, v[1].id) && gone.fired);
}

/* If it has run, it would run again under the same fence. So the store issues a new fence, unless the task has ended
 * there. */
static void restarted_with_its_data_what_waits_lapses_and_what_runs_goes_on(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    bool recalled = true;
    struct error e = { 0 };
    push(w, v, 2);
    struct taken got = take_some(w, 0, 1, 1000);
    server_stop(&w->server, SIGTERM);
    server_start(&w->server);
    renew_at_last(w, 0, &got.tasks.v[0]);
    struct task later = some_task(w);
    push(w, &later, 1);
    got = take_some(w, 0, 5, 1000);
    assert_int_equal(got.tasks.n, 1);
    assert_true(uuid_eq(got.tasks.v[0].id, later.id));
    assert_ok(queue_recall(w->control, (struct fenced_id){ v[1].id, v[1].fence }, &recalled, &e), &e);
    assert_false(recalled);
    ack(w, 0, &later);
    ack(w, 0, &v[0]);
    struct timed_out_delivery gone = doubtful_timeout(w);
    assert_true(uuid_eq(gone.task.id, v[1].id) && !gone.fired);
    ack(w, 0, &v[1]);
    assert_int_equal(look_at_last(w).waiting, 0);
}

static void a_server_that_was_restarted_meanwhile_fails_no_call(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    server_stop(&w->server, SIGKILL);
    server_start(&w->server);
    push(w, &t, 1);
    assert_int_equal(take_some(w, 0, 5, 1000).tasks.n, 1);
}

/* The scripts are gone: they are loaded again. */
static void a_server_that_forgot_the_scripts_is_told_them_again(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    server_do(&w->server, "SCRIPT FLUSH");
    assert_int_equal(take_some(w, 0, 1, 1000).tasks.n, 1);
    server_do(&w->server, "SCRIPT FLUSH");
    ack(w, 0, &t);
    assert_false(is_known(w, &t));
}

static void what_has_lost_its_contents_lapses_and_never_fired(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    char id[UUID_TEXT + 1], command[128];
    push(w, v, 2);
    uuid_format(v[0].id, id);
    snprintf(command, sizeof command, "DEL {one}:q:d:%s:1", id);
    server_do(&w->server, command);
    struct taken got = take_some(w, 0, 5, 1000);
    assert_int_equal(got.tasks.n, 1);
    struct timed_out_delivery gone = timed_out_at_last(w);
    assert_true(uuid_eq(gone.task.id, v[0].id) && gone.task.fence == 1 && !gone.fired && uuid_is_nil(gone.task.claim));
    assert_true(is_known(w, &v[0]));
    ack(w, -1, &v[0]);
    assert_false(is_known(w, &v[0]));
}

static void what_nobody_can_read_lapses_and_never_fired(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    char id[UUID_TEXT + 1], command[128];
    push(w, &t, 1);
    uuid_format(t.id, id);
    snprintf(command, sizeof command, "APPEND {one}:q:d:%s:1 }}}", id);
    server_do(&w->server, command);
    assert_int_equal(take_some(w, 0, 5, 50).tasks.n, 0);
    struct timed_out_delivery gone = timed_out_at_last(w);
    assert_true(uuid_eq(gone.task.id, t.id) && !gone.fired);
}

/* A call does not wait longer for a reply than promised. */
static void a_server_that_hangs_fails_in_time(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct error e = { 0 };
    struct pushed pushed = { 0 };
    push(w, &t, 1);
    kill(w->server.pid, SIGSTOP);
    int64_t start = steady_ms();
    struct task other = some_task(w);
    assert_int_equal(queue_push(w->control, &other, 1, 0, &pushed, &e), ERR_UNAVAILABLE);
    assert_true(pushed.unsure);
    assert_true(steady_ms() - start < 3500);
    start = steady_ms();
    assert_int_equal(queue_push(w->control, &other, 1, 0, &pushed, &e), ERR_UNAVAILABLE);
    assert_true(steady_ms() - start < 3500);
    kill(w->server.pid, SIGCONT);
    look_at_last(w);
    assert_false(is_known(w, &other)); /* its caller has given up, and may have run it elsewhere */
    push(w, &other, 1);
    assert_int_equal(take_some(w, 0, 5, 1000).tasks.n, 2);
}

/* ---- failover ---- */

struct pair {
    struct redis_process replica, sentinel;
    char file[96], follows[32];
};

static void open_pair(struct world *w, struct pair *p)
{
    char master[16];
    snprintf(master, sizeof master, "%d", w->server.port);
    snprintf(p->follows, sizeof p->follows, "127.0.0.1 %s", master);
    server_open(&p->replica,
                (const char *const[]){ "--replicaof", "127.0.0.1", master, "--repl-diskless-sync-delay", "0", NULL });
    server_until(&p->replica, "INFO replication", "master_link_status:up");
    p->sentinel = (struct redis_process){ .port = free_port() };
    snprintf(p->sentinel.folder, sizeof p->sentinel.folder, "/tmp/belfry-redis-XXXXXX");
    assert_non_null(mkdtemp(p->sentinel.folder));
    snprintf(p->file, sizeof p->file, "%s/sentinel.conf", p->sentinel.folder);
    FILE *f = fopen(p->file, "w");
    fprintf(f,
            "port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %s 1\n"
            "sentinel down-after-milliseconds main 300\nsentinel failover-timeout main 3000\n",
            p->sentinel.port, p->sentinel.folder, master);
    fclose(f);
    p->sentinel.more[0] = p->file;
    p->sentinel.more[1] = "--sentinel";
    server_start(&p->sentinel);
    server_until(&p->sentinel, "INFO sentinel", "slaves=1");
}

static void close_pair(struct pair *p)
{
    server_close(&p->sentinel);
    server_close(&p->replica);
}

/* The replica is cut off, and keeps its state. */
static void cut_off_replica(struct world *w)
{
    server_do(&w->server, "CONFIG SET requirepass cut");
    w->server.password = "cut";
    server_do(&w->server, "CLIENT KILL TYPE replica");
}

static void failed_over_to_an_older_replica_nothing_runs_twice_that_must_not(void **state)
{
    struct world *w = *state;
    struct pair p;
    open_pair(w, &p);
    char url[SERVER_URL];
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/main?prefix=one", p.sentinel.port);
    queue_free(w->control);
    w->control = redis_queue(url, NULL);
    for (int i = 0; i < 2; i++) {
        queue_free(w->workers[i]);
        w->workers[i] = redis_queue(url, NULL);
        assert_int_equal(take_some(w, i, 1, 0).tasks.n, 0);
    }
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    v[1].delivery = DELIVER_AT_MOST_ONCE;
    push(w, v, 3);
    uint64_t before = look_at_last(w).epoch;
    server_until(&p.replica, "HGET {one}:q:state waiting", "3");
    cut_off_replica(w);
    struct taken got = take_some(w, 0, 2, 1000); /* the replica does not know that */
    assert_int_equal(got.tasks.n, 2);
    ack(w, 0, &v[1]);
    server_stop(&w->server, SIGKILL);
    renew_at_last(w, 0, &v[0]); /* it runs, but waits on the replica: its worker gets it back */
    assert_true(look_at_last(w).epoch != before);
    renew_at_last(w, 1, &v[0]); /* as soon as this worker is connected again */
    ack(w, 0, &v[0]);
    for (int i = 0; i < 2; i++) { /* the new master cannot tell that one has run and the other has not */
        struct timed_out_delivery gone = doubtful_timeout(w);
        bool once = uuid_eq(gone.task.id, v[1].id);
        assert_true(once || uuid_eq(gone.task.id, v[2].id));
        assert_int_equal(gone.fired, once);
        ack(w, 0, once ? &v[1] : &v[2]);
    }
    close_pair(&p);
}

static void of_several_hosts_the_one_that_is_written_to_is_found(void **state)
{
    struct world *w = *state;
    struct redis_process replica;
    char url[SERVER_URL], master[16];
    snprintf(master, sizeof master, "%d", w->server.port);
    server_open(&replica,
                (const char *const[]){ "--replicaof", "127.0.0.1", master, "--repl-diskless-sync-delay", "0", NULL });
    server_until(&replica, "INFO replication", "master_link_status:up");
    snprintf(url, sizeof url, "redis://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/0?prefix=one", free_port(), replica.port,
             w->server.port);
    queue_free(w->control);
    w->control = redis_queue(url, NULL);
    struct task t = some_task(w);
    push(w, &t, 1);
    server_until(&replica, "HGET {one}:q:state waiting", "1");
    server_stop(&w->server, SIGKILL);
    server_do(&replica, "REPLICAOF NO ONE");
    assert_true(look_at_last(w).waiting == 1);
    server_close(&replica);
}

/* A server that became a replica answers, but cannot be written to. */
static void a_server_that_became_a_replica_is_left(void **state)
{
    struct world *w = *state;
    struct redis_process other;
    char url[SERVER_URL], command[64];
    server_open(&other, NULL);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d,127.0.0.1:%d/0?prefix=one", w->server.port, other.port);
    queue_free(w->control);
    w->control = redis_queue(url, NULL);
    struct task t = some_task(w);
    push(w, &t, 1);
    snprintf(command, sizeof command, "REPLICAOF 127.0.0.1 %d", other.port);
    server_do(&w->server, command);
    struct error e = { 0 };
    struct pushed pushed = { 0 };
    enum err rc = ERR_UNAVAILABLE;
    for (int64_t end = steady_ms() + ENOUGH_MS; rc && steady_ms() < end; nap_ms(20))
        rc = queue_push(w->control, &t, 1, 0, &pushed, &e);
    assert_ok(rc, &e);
    char text[32];
    server_text(&other, "EXISTS {one}:q:state", text, sizeof text);
    assert_string_equal(text, "1");
    server_close(&other);
}

/* ---- a Cluster ---- */

static void on_a_cluster_the_node_of_the_prefix_is_found(void **state)
{
    struct world *w = *state;
    struct redis_process a, b;
    char command[128], url[SERVER_URL], text[64];
    char bus_a[16], bus_b[16]; /* the default is the port + 10000, which may be no valid port */
    snprintf(bus_a, sizeof bus_a, "%d", free_port());
    server_open(&a, (const char *const[]){ "--cluster-enabled", "yes", "--cluster-port", bus_a, NULL });
    snprintf(bus_b, sizeof bus_b, "%d", free_port());
    server_open(&b, (const char *const[]){ "--cluster-enabled", "yes", "--cluster-port", bus_b, NULL });
    server_text(&a, "CLUSTER KEYSLOT {one}", text, sizeof text);
    int slot = atoi(text);
    /* b serves the slot of the prefix, a all others */
    snprintf(command, sizeof command, "CLUSTER ADDSLOTSRANGE %d %d", slot, slot);
    server_do(&b, command);
    if (slot > 0) {
        snprintf(command, sizeof command, "CLUSTER ADDSLOTSRANGE 0 %d", slot - 1);
        server_do(&a, command);
    }
    snprintf(command, sizeof command, "CLUSTER ADDSLOTSRANGE %d 16383", slot + 1);
    server_do(&a, command);
    snprintf(command, sizeof command, "CLUSTER MEET 127.0.0.1 %d %s", b.port, bus_b);
    server_do(&a, command);
    server_until(&a, "CLUSTER INFO", "cluster_state:ok");
    server_until(&b, "CLUSTER INFO", "cluster_state:ok");
    server_url(&a, "one", url);
    queue_free(w->control);
    queue_free(w->workers[0]);
    w->control = redis_queue(url, NULL);
    w->workers[0] = redis_queue(url, NULL);
    struct task t = some_task(w);
    push(w, &t, 1);
    assert_int_equal(take_some(w, 0, 1, 1000).tasks.n, 1);
    ack(w, 0, &t);
    server_text(&b, "DBSIZE", text, sizeof text);
    assert_true(atoi(text) > 0);
    server_close(&a);
    server_close(&b);
}

/* ---- permissions ---- */

static void a_user_and_a_password_are_told(void **state)
{
    struct world *w = *state;
    char url[SERVER_URL];
    struct error e = { 0 };
    struct queue_state s;
    struct task t = some_task(w);
    struct pushed pushed;
    server_do(&w->server,
              "ACL SETUSER belfry on >s3:c@ ~{one}* +@all -@admin -@dangerous +info +role"); /* docs/REDIS.md */
    server_do(&w->server, "ACL SETUSER default off");
    snprintf(url, sizeof url, "redis://belfry:s3%%3Ac%%40@127.0.0.1:%d/3?prefix=one", w->server.port);
    struct queue *right = redis_queue(url, NULL);
    struct events *ev = redis_events(url);
    struct take one = take_of(w, 0, 1, 10);
    struct taken got = { 0 };
    struct delivery_timeouts gone = { 0 };
    struct event_list none = { 0 };
    assert_ok(queue_push(right, &t, 1, 0, &pushed, &e), &e);
    assert_ok(queue_take(right, &one, &w->arena, &got, &e), &e);
    assert_ok(queue_timed_out(right, 0, &w->arena, &gone, &e), &e);
    assert_ok(queue_stats(right, &s, &e), &e);
    assert_ok(events_poll(ev, 1, 10, &w->arena, &none, &e), &e);
    queue_free(right);
    events_free(ev);
    snprintf(url, sizeof url, "redis://belfry:wrong@127.0.0.1:%d?prefix=one", w->server.port);
    struct queue *wrong = redis_queue(url, NULL);
    assert_int_equal(queue_stats(wrong, &s, &e), ERR_UNAVAILABLE);
    assert_says(&e, "WRONGPASS");
    queue_free(wrong);
}

int main(void)
{
#define on(f)   cmocka_unit_test_setup_teardown(f, world_open, world_close)
#define kept(f) cmocka_unit_test_setup_teardown(f, world_open_kept, world_close)
    const struct CMUnitTest tests[] = {
        on(a_wiped_queue_shows_another_epoch_and_knows_nothing),
        on(a_worker_that_waits_while_the_queue_is_wiped_is_heard_of_again),
        on(restarted_without_its_data_it_is_as_if_wiped),
        kept(restarted_with_its_data_what_may_run_once_only_lapses),
        kept(restarted_with_its_data_what_waits_lapses_and_what_runs_goes_on),
        on(a_server_that_was_restarted_meanwhile_fails_no_call),
        on(a_server_that_forgot_the_scripts_is_told_them_again),
        on(what_has_lost_its_contents_lapses_and_never_fired),
        on(what_nobody_can_read_lapses_and_never_fired),
        on(a_server_that_hangs_fails_in_time),
        on(failed_over_to_an_older_replica_nothing_runs_twice_that_must_not),
        on(of_several_hosts_the_one_that_is_written_to_is_found),
        on(a_server_that_became_a_replica_is_left),
        on(on_a_cluster_the_node_of_the_prefix_is_found),
        on(a_user_and_a_password_are_told),
    };
    return cmocka_run_group_tests_name("redis_faults", tests, NULL, NULL);
}
