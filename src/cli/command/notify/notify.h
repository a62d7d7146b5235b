#pragma once
/* cli/command/notify/notify.h - the verbs of `belfry notify`, and what they share. */
#include "base/json/json.h"
#include "cli/table.h"
#include "cli/verbs.h"

enum { NOTIFY_BODY_MAX = 64 * 1024 };
#define SETTINGS  "/v1/notification-settings"
#define INCIDENTS "/v1/incidents"
#define SENT      "/v1/notifications"
#define CHECKS    "/v1/checks"

/* settings.c */
enum exit_code notify_list(struct verb_work *w);
enum exit_code notify_add(struct verb_work *w);
enum exit_code notify_edit(struct verb_work *w);
enum exit_code notify_remove(struct verb_work *w);
enum exit_code notify_test(struct verb_work *w);

/* incidents.c */
enum exit_code notify_show(struct verb_work *w);
enum exit_code notify_mute(struct verb_work *w);
enum exit_code notify_unmute(struct verb_work *w);
enum exit_code notify_incidents(struct verb_work *w);
enum exit_code notify_ack(struct verb_work *w);
enum exit_code notify_checks(struct verb_work *w);
enum exit_code notify_sent(struct verb_work *w);
enum exit_code notify_resend(struct verb_work *w);

/* ---- shared ---- */

/* What a setting tells, "failure,recovered", and the member of each: "on_failure". */
enum { NOTIFY_KINDS = 7 };
extern const char *const notify_kinds[NOTIFY_KINDS];

/* setting_body.c: the members that the options say; of a new setting with its name. */
enum err notify_write_body(const struct verb_work *w, bool is_new, struct buf *out, struct error *e) must_use;

/* Writes the path of the setting that the second argument names, by its id, the beginning of its id, or its name. */
enum exit_code notify_setting_path(struct verb_work *w, const char *tail, char out[VERB_PATH]) must_use;
void notify_print_setting(struct verb_work *w, const json_t *setting, struct buf *out);
/* "muted until 2026-02-10 08:00:00"; out is as it was if it is not muted now. */
bool notify_muted_text(const json_t *of, int64_t now_ms, char out[CELL_TEXT]);
