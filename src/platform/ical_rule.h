#pragma once
/* platform/ical_rule.h - refuses an RRULE that RFC 5545 (3.3.10) does not allow, or that libical expands wrongly.
 *
 * libical drops such a part, or expands the rule to no dates or to others. A sentence begins with the line, names the
 * part and says what to do. */
#include "base/buf.h"
#include "base/err.h"

struct ical_rule {
    size_t line;
    unsigned parts; /* a set; for ical_rule_days_text */
};

/* text is the value of the property, unfolded. */
enum err ical_rule_check(struct str text, size_t line, struct ical_rule *ret, struct error *e) must_use;

/* The names of the parts that choose days: ", BYMONTH, BYMONTHDAY", or nothing. */
void ical_rule_days_text(const struct ical_rule *rule, struct buf *out);
