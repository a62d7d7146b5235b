#include "server/settings/guard_settings.h"

#include <stdio.h>

#include "base/sentence.h"

static enum err guard_settings_read_one(struct str given, struct address_range *ret, struct error *e)
{
    struct error why = { 0 };
    char quoted[QUOTE_TEXT];
    if (address_allowed_parse(given, ret, &why) == ERR_OK)
        return ERR_OK;
    quote_text(given, quoted);
    return error_field(e, "http.allow", "%s %s", quoted, why.text);
}

enum err guard_settings_read(const struct options *o, struct guard_settings *ret, struct guard_setup *ret_setup,
                             struct error *e)
{
    struct str rest = option_get(o, "allow")->text, word;
    ret->count = 0;
    while (rest.p && str_cut(&rest, ',', &word)) {
        if (ret->count == GUARD_ALLOWED_MAX)
            return error_field(e, "http.allow", "may have at most %d entries", GUARD_ALLOWED_MAX);
        if (guard_settings_read_one(str_trim(word), &ret->allowed[ret->count++], e) && options_end_at(o, e))
            return e->code;
    }
    *ret_setup = (struct guard_setup){ .allowed = ret->allowed,
                                       .allowed_count = ret->count,
                                       .allow_loopback = option_given(o, "allow-loopback") &&
                                                         option_get(o, "allow-loopback")->number };
    return ERR_OK;
}
