/* The log of changes of tasks: who makes a change writes its line, and the stores tell what they change besides. */
#include "server/server_internal.h"

/* The thread of a batcher. */
static void server_on_changes(const struct change_listener *l, const struct task_change *v, size_t n, size_t left_out)
{
    transition_log_told(((const struct server_changes *)l)->log, v, n, left_out);
}

void server_open_transitions(struct server *a)
{
    process_name(a->name);
    a->transitions = transition_log_new(&(struct transition_log_setup){
        .which = a->setup.transitions, .node = str_from(a->name), .clock = a->setup.clock, .metrics = a->metrics });
    a->changes = (struct server_changes){ { server_on_changes }, a->transitions };
    for (int way = 0; transition_log_listens(a->transitions) && way < OP_ROUTES; way++)
        if (a->ways[way])
            store_tell_changes(a->ways[way], &a->changes.base);
}
