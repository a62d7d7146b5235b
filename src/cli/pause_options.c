#include "cli/pause_options.h"

#include "base/duration.h"
#include "base/rfc3339.h"

static bool pause_option_given(const struct options *o, const char *flag)
{
    return option_known(o, flag) && option_given(o, flag);
}

bool pause_options_given(const struct options *o)
{
    return pause_option_given(o, "reason") || pause_option_given(o, "until");
}

/* --until is a time, or so long from now; '' takes the end away. */
static enum err pause_options_write_until(struct str text, struct jw *w, struct error *e)
{
    int64_t ms;
    if (!text.n) {
        jw_key(w, "until");
        jw_null(w);
        return ERR_OK;
    }
    bool is_time = rfc3339_parse(text, &ms, e) == ERR_OK;
    if (!is_time && duration_parse(text, &ms, e))
        return error_field(e, "--until", "must be a time such as 2026-02-10T08:00:00Z, or a duration such as 2h");
    if (is_time)
        jw_kv_time(w, "until", ms);
    else
        jw_kv_str(w, "for", text);
    return ERR_OK;
}

enum err pause_options_write(const struct options *o, struct jw *w, struct error *e)
{
    if (pause_option_given(o, "reason"))
        jw_kv_str(w, "reason", option_get(o, "reason")->text);
    return pause_option_given(o, "until") ? pause_options_write_until(option_get(o, "until")->text, w, e) : ERR_OK;
}
