#pragma once
/* cli/command/commands.h - declarations of all commands. Some related commands share a file. */
#include "cli/cli.h"

extern const struct command command_serve, command_worker, command_workers, command_breakers, command_migrate,
    command_check_config, command_configuration;
extern const struct command command_sink, command_bench, command_alerts, command_dashboard;
extern const struct command command_add, command_list, command_show, command_edit, command_history;
extern const struct command command_pause, command_resume, command_cancel, command_rm, command_run, command_retry;
extern const struct command command_queue, command_calendar, command_tenant, command_key, command_node,
    command_workflow;
extern const struct command command_upcoming, command_explain, command_deps;
extern const struct command command_notify, command_signing_keys, command_verify;
extern const struct command command_dlq, command_job, command_audit, command_secrets, command_watch;
extern const struct command command_import, command_top, command_status, command_backup, command_restore, command_copy,
    command_tls;
extern const struct command command_next, command_version, command_help_, command_completion, command_complete;
