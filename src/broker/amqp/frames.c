/* Reads frames and assembles messages. librabbitmq owns the memory of a frame until the next one is read, so
 * everything is copied. */
#include <stdio.h>
#include <stdlib.h>

#include "broker/amqp/declare.h"

static void rabbit_copy_text(char *to, size_t size, amqp_bytes_t from)
{
    snprintf(to, size, "%.*s", (int)min_of(from.len, size - 1), from.len ? (const char *)from.bytes : "");
}
#define COPY_TEXT(to, from) rabbit_copy_text((to), sizeof(to), (from))

static bool rabbit_is_key(const amqp_table_entry_t *entry, const char *name)
{
    return str_eq((struct str){ entry->key.bytes, entry->key.len }, str_from(name));
}

/* x-death is an array of tables, the latest first. */
static void rabbit_read_x_death(struct rabbit_message *m, const amqp_field_value_t *v)
{
    if (v->kind != AMQP_FIELD_KIND_ARRAY || v->value.array.num_entries == 0)
        return;
    const amqp_field_value_t *latest = &v->value.array.entries[0];
    for (int i = 0; latest->kind == AMQP_FIELD_KIND_TABLE && i < latest->value.table.num_entries; i++) {
        const amqp_table_entry_t *entry = &latest->value.table.entries[i];
        if (rabbit_is_key(entry, "reason") && entry->value.kind == AMQP_FIELD_KIND_UTF8)
            COPY_TEXT(m->reason, entry->value.value.bytes);
    }
}

static bool rabbit_is_positive(const amqp_field_value_t *v)
{
    switch (v->kind) {
    case AMQP_FIELD_KIND_I64: return v->value.i64 > 0;
    case AMQP_FIELD_KIND_I32: return v->value.i32 > 0;
    case AMQP_FIELD_KIND_I16: return v->value.i16 > 0;
    case AMQP_FIELD_KIND_I8: return v->value.i8 > 0;
    case AMQP_FIELD_KIND_BOOLEAN: return v->value.boolean;
    default: return false;
    }
}

static void rabbit_read_properties(struct rabbit_message *m, const amqp_basic_properties_t *p)
{
    if (p->_flags & AMQP_BASIC_TYPE_FLAG)
        COPY_TEXT(m->type, p->type);
    if (p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG)
        COPY_TEXT(m->message_id, p->message_id);
    if (p->_flags & AMQP_BASIC_REPLY_TO_FLAG)
        COPY_TEXT(m->reply_to, p->reply_to);
    for (int i = 0; p->_flags & AMQP_BASIC_HEADERS_FLAG && i < p->headers.num_entries; i++) {
        const amqp_table_entry_t *entry = &p->headers.entries[i];
        if (rabbit_is_key(entry, "x-death"))
            rabbit_read_x_death(m, &entry->value);
        else if (rabbit_is_key(entry, "x-delivery-count"))
            m->redelivered |= rabbit_is_positive(&entry->value);
        else if (rabbit_is_key(entry, "fired"))
            m->fired = rabbit_is_positive(&entry->value);
    }
}

static void rabbit_finish_message(struct rabbit_link *l, struct rabbit_channel *c)
{
    struct rabbit_message m = c->in;
    c->in = (struct rabbit_message){ 0 };
    l->confirms.returned += m.returned;
    c->replies += m.got;
    if (!m.returned)
        l->hooks->message(l, &m);
    else if (l->hooks->returned)
        l->hooks->returned(l, &m);
    buf_release(&m.body);
}

static void rabbit_on_header(struct rabbit_link *l, struct rabbit_channel *c, const amqp_frame_t *f)
{
    c->missing = f->payload.properties.body_size;
    rabbit_read_properties(&c->in, f->payload.properties.decoded);
    buf_init(&c->in.body, RABBIT_BODY_MAX);
    if (c->missing == 0)
        rabbit_finish_message(l, c);
}

static void rabbit_on_body(struct rabbit_link *l, struct rabbit_channel *c, amqp_bytes_t piece)
{
    buf_add(&c->in.body, (struct str){ piece.bytes, piece.len });
    c->missing -= min_of(c->missing, piece.len);
    if (c->missing == 0)
        rabbit_finish_message(l, c);
}

static void rabbit_on_deliver(struct rabbit_channel *c, uint16_t channel, const amqp_basic_deliver_t *d)
{
    c->in = (struct rabbit_message){ .channel = channel, .tag = d->delivery_tag, .redelivered = d->redelivered };
    COPY_TEXT(c->in.consumer, d->consumer_tag);
}

static void rabbit_on_get_ok(struct rabbit_channel *c, uint16_t channel, const amqp_basic_get_ok_t *d)
{
    c->in = (struct rabbit_message){
        .channel = channel, .tag = d->delivery_tag, .redelivered = d->redelivered, .got = true
    };
}

/* ---- confirms ---- */

static void rabbit_confirm_one(struct rabbit_confirms *c, uint64_t number, bool taken)
{
    if (number < c->first || number >= c->next || c->seen[number - c->first])
        return;
    c->seen[number - c->first] = true;
    c->left--;
    c->refused += !taken;
    c->latest_ms = rabbit_now_ms();
}

static void rabbit_on_confirm(struct rabbit_confirms *c, uint64_t number, bool and_before, bool taken)
{
    for (uint64_t i = and_before ? c->first : number; i <= number && i < c->next; i++)
        rabbit_confirm_one(c, i, taken);
}

/* ---- other methods from the broker ---- */

static void rabbit_on_declare_ok(struct rabbit_channel *c, const amqp_queue_declare_ok_t *ok)
{
    if (c->ready_count == c->ready_cap) {
        c->ready_cap = c->ready_cap * 2 + 8;
        c->ready = xrealloc(c->ready, c->ready_cap * sizeof *c->ready);
        c->consumers = xrealloc(c->consumers, c->ready_cap * sizeof *c->consumers);
    }
    c->consumers[c->ready_count] = ok->consumer_count;
    c->ready[c->ready_count++] = ok->message_count;
}

static void rabbit_note_close(struct rabbit_link *l, int code, amqp_bytes_t text)
{
    error_set(&l->why, ERR_UNAVAILABLE, "RabbitMQ: %.*s (%d)", (int)text.len, (const char *)text.bytes, code);
}

/* A refused call closes its channel, which is then opened again when needed. If a vital channel (one that delivers)
 * is closed, so is the link. */
static enum err rabbit_on_channel_close(struct rabbit_link *l, uint16_t channel, const amqp_channel_close_t *close,
                                        struct error *e)
{
    rabbit_note_close(l, close->reply_code, close->reply_text);
    if (l->channels[channel].vital) {
        *e = l->why;
        rabbit_drop(l, e);
        return e->code;
    }
    l->channels[channel].close_code = close->reply_code;
    l->channels[channel].open = false;
    int status = amqp_send_method(l->state, channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &(amqp_channel_close_ok_t){ 0 });
    return status ? rabbit_connection_error(l, status, e) : ERR_OK;
}

static enum err rabbit_on_connection_close(struct rabbit_link *l, const amqp_connection_close_t *close, struct error *e)
{
    rabbit_note_close(l, close->reply_code, close->reply_text);
    l->classic |= close->reply_code == AMQP_NOT_IMPLEMENTED;
    (void)amqp_send_method(l->state, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &(amqp_connection_close_ok_t){ 0 });
    *e = l->why;
    rabbit_drop(l, e);
    return e->code;
}

/* A consumed queue was deleted. The broker sends nothing else about it, so the link is closed and opened again. */
static enum err rabbit_on_cancel(struct rabbit_link *l, const amqp_basic_cancel_t *cancel, struct error *e)
{
    error_set(e, ERR_UNAVAILABLE, "RabbitMQ: the queue of consumer %.*s is gone", (int)cancel->consumer_tag.len,
              (const char *)cancel->consumer_tag.bytes);
    rabbit_drop(l, e);
    return e->code;
}

static enum err rabbit_on_method(struct rabbit_link *l, uint16_t channel, const amqp_method_t *m, struct error *e)
{
    struct rabbit_channel *c = &l->channels[channel];
    const void *decoded = m->decoded;
    const amqp_basic_ack_t *ack = decoded;
    const amqp_basic_nack_t *nack = decoded;
    switch (m->id) {
    case AMQP_CONNECTION_BLOCKED_METHOD: l->blocked = true; break;
    case AMQP_CONNECTION_UNBLOCKED_METHOD: l->blocked = false; break;
    case AMQP_CONNECTION_CLOSE_METHOD: return rabbit_on_connection_close(l, decoded, e);
    case AMQP_CHANNEL_CLOSE_METHOD: return rabbit_on_channel_close(l, channel, decoded, e);
    case AMQP_BASIC_CANCEL_METHOD: return rabbit_on_cancel(l, decoded, e);
    case AMQP_BASIC_DELIVER_METHOD: rabbit_on_deliver(c, channel, decoded); break;
    case AMQP_BASIC_GET_OK_METHOD: rabbit_on_get_ok(c, channel, decoded); break;
    case AMQP_BASIC_RETURN_METHOD: c->in = (struct rabbit_message){ .channel = channel, .returned = true }; break;
    case AMQP_BASIC_ACK_METHOD: rabbit_on_confirm(&l->confirms, ack->delivery_tag, ack->multiple, true); break;
    case AMQP_BASIC_NACK_METHOD: rabbit_on_confirm(&l->confirms, nack->delivery_tag, nack->multiple, false); break;
    case AMQP_QUEUE_DECLARE_OK_METHOD:
        rabbit_on_declare_ok(c, decoded);
        c->replies++;
        break;
    default: c->replies++; break; /* a reply: some method's -ok, or basic.get-empty */
    }
    return ERR_OK;
}

static enum err rabbit_on_frame(struct rabbit_link *l, const amqp_frame_t *f, struct error *e)
{
    if (f->channel > RABBIT_CHANNELS)
        return ERR_OK;
    if (f->frame_type == AMQP_FRAME_METHOD)
        return rabbit_on_method(l, f->channel, &f->payload.method, e);
    if (f->frame_type == AMQP_FRAME_HEADER)
        rabbit_on_header(l, &l->channels[f->channel], f);
    else if (f->frame_type == AMQP_FRAME_BODY)
        rabbit_on_body(l, &l->channels[f->channel], f->payload.body_fragment);
    return ERR_OK;
}

enum err rabbit_pump(struct rabbit_link *l, int64_t wait_ms, struct error *e)
{
    while (l->state) {
        amqp_frame_t frame;
        struct timeval wait = { wait_ms / 1000, wait_ms % 1000 * 1000 };
        amqp_maybe_release_buffers(l->state);
        int status = amqp_simple_wait_frame_noblock(l->state, &frame, &wait);
        if (status == AMQP_STATUS_TIMEOUT)
            return ERR_OK;
        if (status)
            return rabbit_connection_error(l, status, e);
        if (rabbit_on_frame(l, &frame, e))
            return e->code;
        wait_ms = 0;
    }
    *e = l->why;
    return e->code = ERR_UNAVAILABLE;
}
