#pragma once
/* core/notify/channel_formats.h - what each channel sends of a notification: a webhook, Slack, a push service, mail. */
#include "core/notify/incident.h"
#include "core/notify/notification.h"
#include "core/notify/setting.h"

/* What a text is made of. incident NULL: a message without one (TEST, SUPPRESSED). */
struct channel_facts {
    const struct notification *message;
    const struct incident *incident;
    const struct setting *setting;
    struct str tenant;
    int64_t now_ms;
    struct str site; /* api.public_url: messages link to the dashboard; empty: they do not */
};

/* One line, then a few more. */
void channel_title(const struct channel_facts *f, struct buf *out);
void channel_text(const struct channel_facts *f, struct buf *out);

void channel_webhook(const struct channel_facts *f, struct buf *out); /* JSON, Standard Webhooks */
void channel_slack(const struct channel_facts *f, struct buf *out);   /* JSON */
void channel_push(const struct channel_facts *f, const struct channel *c, struct buf *out); /* JSON, for ntfy */
/* RFC 5322: headers and body, lines end in CR LF. */
void channel_mail(const struct channel_facts *f, const struct channel *c, struct str from, struct buf *out);
