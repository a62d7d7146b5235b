#include "cli/command/commands.h"

/* clang-format off */
const struct option common_options[] = {
    { .flag = "json", .type = OPTION_FLAG, .help = "print JSON, one object a line" },
    { .key = "server", .flag = "server", .type = OPTION_TEXT, .value = "URL", .preset = "http://127.0.0.1:8080",
      .help = "URL of the server; also BELFRY_SERVER" },
    { .key = "key", .flag = "key", .type = OPTION_TEXT, .value = "KEY",
      .help = "API key, or file:/path of a file with it; also BELFRY_KEY; default: admin.key in the data directory" },
    { .key = "data_dir", .flag = "data-dir", .type = OPTION_TEXT, .value = "DIR",
      .help = "data directory of the server; also BELFRY_DATA_DIR; default: ~/.local/share/belfry" },
    { .flag = "help", .letter = 'h', .type = OPTION_FLAG, .help = "print this and exit" },
};
/* clang-format on */
const size_t common_option_count = array_count(common_options);

/* clang-format off */
const struct command *const commands[] = {
    &command_serve,
    &command_worker,
    &command_add,
    &command_list,
    &command_show,
    &command_edit,
    &command_pause,
    &command_resume,
    &command_cancel,
    &command_rm,
    &command_run,
    &command_retry,
    &command_history,
    &command_upcoming,
    &command_explain,
    &command_deps,
    &command_dlq,
    &command_workflow,
    &command_job,
    &command_queue,
    &command_breakers,
    &command_calendar,
    &command_tenant,
    &command_key,
    &command_node,
    &command_workers,
    &command_status,
    &command_top,
    &command_import,
    &command_next,
    &command_sink,
    &command_bench,
    &command_backup,
    &command_restore,
    &command_copy,
    &command_migrate,
    &command_check_config,
    &command_version,
    &command_help_,
    &command_completion,
    &command_complete,
    &command_configuration,
    NULL,
};
/* clang-format on */
