/* Parses text into items with one character of lookahead. Positions in error sentences count from 1 in the original
 * text. A byte of the text appears in a sentence only through cron_byte_name, or if it is known to be a letter or
 * digit. */
#include <assert.h>
#include <stdio.h>

#include "core/time/cron_syntax.h"

static const char *const month_names[] = { "JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                           "JUL", "AUG", "SEP", "OCT", "NOV", "DEC" };
static const char *const month_long_names[] = { "January", "February", "March",     "April",   "May",      "June",
                                                "July",    "August",   "September", "October", "November", "December" };
static const char *const weekday_names[] = { "SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN" };
static const char *const weekday_long_names[] = { "Sunday",   "Monday", "Tuesday",  "Wednesday",
                                                  "Thursday", "Friday", "Saturday", "Sunday" };

const struct cron_rule cron_rules[CRON_FIELDS] = {
    [CRON_SECOND] = { "second", 0, 59, 59, 59, 60, NULL, NULL },
    [CRON_MINUTE] = { "minute", 0, 59, 59, 59, 60, NULL, NULL },
    [CRON_HOUR] = { "hour", 0, 23, 23, 23, 24, NULL, NULL },
    [CRON_DAY] = { "day of month", 1, 31, 31, 28, 31, NULL, NULL },
    [CRON_MONTH] = { "month", 1, 12, 12, 12, 12, month_names, month_long_names },
    [CRON_WEEKDAY] = { "day of week", 0, 7, 6, 6, 7, weekday_names, weekday_long_names },
};

static const struct {
    const char *name, *expression; /* expression NULL: refused for this reason: */
    const char *reason;
} macros[] = {
    { "@yearly", "0 0 1 1 *", NULL },
    { "@annually", "0 0 1 1 *", NULL },
    { "@monthly", "0 0 1 * *", NULL },
    { "@weekly", "0 0 * * 0", NULL },
    { "@daily", "0 0 * * *", NULL },
    { "@midnight", "0 0 * * *", NULL },
    { "@hourly", "0 * * * *", NULL },
    { "@reboot", NULL, "is not supported; run 'belfry add' from a start script" },
    { "@every", NULL, "is not a cron expression; use an interval instead" },
};

/* Hints for characters that are valid in other fields only. */
static const struct {
    char c;
    const char *hint;
} elsewhere[] = {
    { 'L', "; L is the last day of the month or, behind a day of the week, its last: FRIL" },
    { 'W', "; W follows a day of the month, or L: 15W, LW" },
    { '#', "; # follows a day of the week: MON#2" },
    { '?', "; ? stands alone, in the day of month or the day of week" },
    { '/', "; a step follows *, a value, a range or H: */5" },
};

struct cron_scan {
    struct str text;
    size_t at, end; /* of the field being read */
    enum cron_field_id field;
    struct cron_syntax *syntax;
    struct error *e;
};

struct cron_value {
    uint8_t v;
    bool named;
};

#define cron_refuse(s, ...) error_field((s)->e, cron_rules[(s)->field].name, __VA_ARGS__)

/* "'x'", or "byte 0x07" for a control character or a byte that is not ASCII. */
struct cron_byte_name {
    char text[16];
};

static struct cron_byte_name cron_byte_name(char c)
{
    struct cron_byte_name name;
    snprintf(name.text, sizeof name.text, c >= ' ' && c <= '~' ? "'%c'" : "byte 0x%02X", (unsigned char)c);
    return name;
}

/* Returns NUL at the field's end, which equals no character that callers look for. */
static char cron_parse_peek(const struct cron_scan *s)
{
    return s->at < s->end ? s->text.p[s->at] : '\0';
}

static bool cron_parse_accept(struct cron_scan *s, char c)
{
    if (ascii_lower(cron_parse_peek(s)) != ascii_lower(c))
        return false;
    s->at++;
    return true;
}

static struct str cron_parse_take_run(struct cron_scan *s, bool (*belongs)(char))
{
    size_t from = s->at;
    while (s->at < s->end && belongs(s->text.p[s->at]))
        s->at++;
    return str_sub(s->text, from, s->at);
}

static const char *cron_parse_hint(char c)
{
    for (size_t i = 0; i < array_count(elsewhere); i++)
        if (ascii_lower(elsewhere[i].c) == ascii_lower(c))
            return elsewhere[i].hint;
    return "";
}

/* An unexpected character, or the end of the field where `wanted` is missing. */
static enum err cron_parse_unexpected_error(const struct cron_scan *s, const char *wanted)
{
    if (s->at == s->end)
        return cron_refuse(s, "%s is missing after %s at position %zu", wanted,
                           cron_byte_name(s->text.p[s->at - 1]).text, s->at);
    char c = s->text.p[s->at];
    const char *hint = (unsigned char)c >= 0x80 ? "; only plain ASCII is understood" : cron_parse_hint(c);
    return cron_refuse(s, "unexpected %s at position %zu%s", cron_byte_name(c).text, s->at + 1, hint);
}

static enum err cron_parse_range_error(const struct cron_scan *s, struct str digits, int min, int max, const char *hint)
{
    int shown = (int)min_of(digits.n, (size_t)9);
    return cron_refuse(s, "%.*s%s is not between %d and %d, at position %zu%s", shown, digits.p,
                       digits.n > 9 ? "..." : "", min, max, (size_t)(digits.p - s->text.p) + 1, hint);
}

static enum err cron_parse_read_number(struct cron_scan *s, int min, int max, uint8_t *ret)
{
    struct str digits = cron_parse_take_run(s, is_digit);
    int64_t v;
    if (digits.n == 0)
        return cron_parse_unexpected_error(s, "a value");
    if (!str_to_i64(digits, min, max, &v))
        return cron_parse_range_error(s, digits, min, max, "");
    *ret = (uint8_t)v;
    return ERR_OK;
}

/* A step beyond the field's range would silently equal the field's own period, which is surely not what the user
 * wants. */
static enum err cron_parse_read_step(struct cron_scan *s, uint8_t *ret)
{
    struct str digits = cron_parse_take_run(s, is_digit);
    int64_t v;
    if (digits.n == 0)
        return cron_parse_unexpected_error(s, "a step");
    if (str_to_i64(digits, 0, 0, &v))
        return cron_refuse(s, "step 0 at position %zu would never move on; write 1 or more",
                           (size_t)(digits.p - s->text.p) + 1);
    if (!str_to_i64(digits, 1, cron_rules[s->field].values, &v))
        return cron_parse_range_error(s, digits, 1, cron_rules[s->field].values,
                                      "; for longer periods use an interval");
    *ret = (uint8_t)v;
    return ERR_OK;
}

/* Returns the index of a name in the rule's tables, or -1. */
static int cron_parse_find_name(const struct cron_rule *rule, struct str word)
{
    for (int i = 0; rule->names && i < rule->values; i++)
        if (str_eq_nocase(word, str_from(rule->names[i])) || str_eq_nocase(word, str_from(rule->long_names[i])))
            return i;
    return -1;
}

static enum err cron_parse_name_error(const struct cron_scan *s, struct str word)
{
    const struct cron_rule *rule = &cron_rules[s->field];
    size_t position = (size_t)(word.p - s->text.p) + 1;
    int shown = (int)min_of(word.n, (size_t)20);
    const char *hint = cron_parse_hint(word.p[0]);
    if (!rule->names)
        return cron_refuse(s, "'%.*s' at position %zu is not a number%s", shown, word.p, position, hint);
    for (int i = 0; i < rule->values; i++)
        if (str_distance(word, str_from(rule->names[i])) <= 1 || str_distance(word, str_from(rule->long_names[i])) <= 2)
            return cron_refuse(s, "'%.*s' at position %zu is not a %s; did you mean %s?", shown, word.p, position,
                               rule->name, rule->names[i]);
    return cron_refuse(s, "'%.*s' at position %zu is not a %s; write %s to %s or %d to %d", shown, word.p, position,
                       rule->name, rule->names[0], rule->names[rule->end - rule->min], rule->min, rule->end);
}

static enum err cron_parse_read_value(struct cron_scan *s, struct cron_value *ret)
{
    const struct cron_rule *rule = &cron_rules[s->field];
    ret->named = is_alpha(cron_parse_peek(s));
    if (!ret->named)
        return cron_parse_read_number(s, rule->min, rule->max, &ret->v);
    struct str word = cron_parse_take_run(s, is_alpha);
    int index = cron_parse_find_name(rule, word);
    if (index < 0)
        return cron_parse_name_error(s, word);
    ret->v = (uint8_t)(index + rule->min);
    return ERR_OK;
}

static void cron_parse_format_value(char *out, size_t size, const struct cron_rule *rule, int v, bool named)
{
    if (named)
        snprintf(out, size, "%s", rule->names[v - rule->min]);
    else
        snprintf(out, size, "%d", v);
}

/* Appends "5-7", or "7" if both are equal; nothing if `to` is before `from`. */
static void cron_parse_format_span(char *out, size_t size, const struct cron_rule *rule, int from, int to, bool named)
{
    char low[8], high[8];
    size_t n = strlen(out);
    if (from > to)
        return;
    cron_parse_format_value(low, sizeof low, rule, from, named);
    cron_parse_format_value(high, sizeof high, rule, to, named);
    snprintf(out + n, size - n, "%s%s%s%s", n ? "," : "", low, from < to ? "-" : "", from < to ? high : "");
}

/* The sentence says what to write instead: FRI-SUN,MON for FRI-MON, 22-23,0-6 for 22-6. H takes one range only. */
static enum err cron_parse_backwards_error(const struct cron_scan *s, struct cron_value from, struct cron_value to,
                                           bool hash)
{
    const struct cron_rule *rule = &cron_rules[s->field];
    bool weekday = s->field == CRON_WEEKDAY, named = from.named || to.named;
    char low[8], high[8], remedy[40] = "";
    cron_parse_format_value(low, sizeof low, rule, from.v, from.named);
    cron_parse_format_value(high, sizeof high, rule, to.v, to.named);
    if (hash)
        return cron_refuse(s, "range %s-%s runs backwards; H needs a range that does not, such as H(%s-%s)", low, high,
                           high, low);
    if (weekday && from.v == 7) {
        cron_parse_format_span(remedy, sizeof remedy, rule, 0, to.v, named);
    } else {
        cron_parse_format_span(remedy, sizeof remedy, rule, from.v, rule->max, named);
        cron_parse_format_span(remedy, sizeof remedy, rule, weekday ? 1 : rule->min, to.v, named);
    }
    return cron_refuse(s, "range %s-%s runs backwards; write %s", low, high, remedy);
}

/* Reads the end of a range, after its '-'. SUN as an end is the last day of the week, not the first. */
static enum err cron_parse_read_range_end(struct cron_scan *s, struct cron_value from, bool hash, uint8_t *ret)
{
    struct cron_value to;
    enum err rc = cron_parse_read_value(s, &to);
    if (rc)
        return rc;
    if (s->field == CRON_WEEKDAY && to.named && to.v == 0 && from.v > 0)
        to.v = 7;
    if (to.v < from.v)
        return cron_parse_backwards_error(s, from, to, hash);
    *ret = to.v;
    return ERR_OK;
}

static void cron_parse_add_item(struct cron_scan *s, struct cron_item item)
{
    assert(s->syntax->item_count < array_count(s->syntax->items));
    s->syntax->items[s->syntax->item_count++] = item;
    s->syntax->fields[s->field].count++;
}

/* After a first value: -b, -b/n, /n, W, L, #n or nothing. */
static enum err cron_parse_read_value_tail(struct cron_scan *s, struct cron_value from)
{
    struct cron_item item = { .kind = CRON_SPAN, .from = from.v, .to = from.v };
    enum err rc = ERR_OK;
    if (s->field == CRON_DAY && cron_parse_accept(s, 'W')) {
        item.kind = CRON_NEAREST_WORKDAY;
    } else if (s->field == CRON_WEEKDAY && cron_parse_accept(s, 'L')) {
        item.kind = CRON_LAST_OF;
    } else if (s->field == CRON_WEEKDAY && cron_parse_accept(s, '#')) {
        item.kind = CRON_NTH;
        rc = cron_parse_read_number(s, 1, 5, &item.nth);
    } else if (cron_parse_accept(s, '-')) {
        item.step = 1;
        rc = cron_parse_read_range_end(s, from, false, &item.to);
        if (!rc && cron_parse_accept(s, '/'))
            rc = cron_parse_read_step(s, &item.step);
    } else if (cron_parse_accept(s, '/')) {
        item.to = cron_rules[s->field].end;
        rc = cron_parse_read_step(s, &item.step);
    }
    if (s->field == CRON_WEEKDAY && item.from == 7 && (item.kind != CRON_SPAN || item.to < 7))
        item.from = 0; /* 7/2, 7#1 and 7L start with Sunday as the first day of the week */
    if (!rc)
        cron_parse_add_item(s, item);
    return rc;
}

static enum err cron_parse_read_star(struct cron_scan *s)
{
    const struct cron_rule *rule = &cron_rules[s->field];
    struct cron_item item = { .kind = CRON_SPAN, .from = rule->min, .to = rule->end, .step = 1 };
    enum err rc = cron_parse_accept(s, '/') ? cron_parse_read_step(s, &item.step) : ERR_OK;
    if (!rc)
        cron_parse_add_item(s, item);
    return rc;
}

static enum err cron_parse_read_any_day(struct cron_scan *s)
{
    bool day_field = s->field == CRON_DAY || s->field == CRON_WEEKDAY;
    if (!day_field || s->at != s->end || s->syntax->fields[s->field].count > 0) {
        s->at--;
        return cron_parse_unexpected_error(s, "");
    }
    return cron_parse_read_star(s);
}

/* Reads the (a-b) after an H. */
static enum err cron_parse_read_hash_range(struct cron_scan *s, struct cron_item *item)
{
    struct cron_value from;
    enum err rc = cron_parse_read_value(s, &from);
    if (rc)
        return rc;
    if (!cron_parse_accept(s, '-'))
        return cron_parse_unexpected_error(s, "the range's end");
    rc = cron_parse_read_range_end(s, from, true, &item->to);
    if (rc)
        return rc;
    if (!cron_parse_accept(s, ')'))
        return cron_parse_unexpected_error(s, "')'");
    if (s->field == CRON_DAY && item->to > cron_rules[CRON_DAY].hash_end)
        return cron_refuse(s, "H cannot choose day %d, which some months lack; end its range at 28", item->to);
    item->from = from.v;
    item->bounded = true;
    return ERR_OK;
}

/* With a step, the first value is chosen among as many values as the step skips, but only values that are sure to
 * exist. */
static enum err cron_parse_read_hash(struct cron_scan *s)
{
    const struct cron_rule *rule = &cron_rules[s->field];
    struct cron_item item = { .kind = CRON_SPAN, .from = rule->min, .to = rule->hash_end };
    enum err rc = cron_parse_accept(s, '(') ? cron_parse_read_hash_range(s, &item) : ERR_OK;
    if (rc)
        return rc;
    item.choices = (uint8_t)(item.to - item.from + 1);
    if (cron_parse_accept(s, '/')) {
        rc = cron_parse_read_step(s, &item.step);
        item.choices = min_of(item.choices, item.step);
        item.to = item.bounded ? item.to : rule->end;
    }
    if (!rc)
        cron_parse_add_item(s, item);
    return rc;
}

/* L, L-n and LW. */
static enum err cron_parse_read_last_day(struct cron_scan *s, struct str word)
{
    struct cron_item item = { .kind = word.n == 1 ? CRON_LAST : CRON_LAST_WORKDAY };
    enum err rc = word.n == 1 && cron_parse_accept(s, '-') ? cron_parse_read_number(s, 1, 30, &item.from) : ERR_OK;
    if (!rc)
        cron_parse_add_item(s, item);
    return rc;
}

/* Reads a member that begins with a letter. FRIL is one word, so its L is cut off here. */
static enum err cron_parse_read_word(struct cron_scan *s)
{
    size_t from = s->at;
    struct str word = cron_parse_take_run(s, is_alpha);
    if (str_eq_nocase(word, S("H")))
        return cron_parse_read_hash(s);
    if (s->field == CRON_DAY && (str_eq_nocase(word, S("L")) || str_eq_nocase(word, S("LW"))))
        return cron_parse_read_last_day(s, word);
    if (s->field == CRON_WEEKDAY && str_eq_nocase(word, S("L")))
        return cron_refuse(
            s, "'L' at position %zu lacks its day; write SATL or 6L for the last Saturday, 6 for Saturday", from + 1);
    struct str head = str_sub(word, 0, word.n - 1);
    if (s->field == CRON_WEEKDAY && ascii_lower(word.p[word.n - 1]) == 'l' &&
        cron_parse_find_name(&cron_rules[CRON_WEEKDAY], head) >= 0)
        word = head;
    struct cron_scan name = *s; /* a name must be the whole word */
    name.at = from;
    name.end = from + word.n;
    struct cron_value v;
    enum err rc = cron_parse_read_value(&name, &v);
    s->at = from + word.n;
    return rc ? rc : cron_parse_read_value_tail(s, v);
}

static enum err cron_parse_read_item(struct cron_scan *s)
{
    struct cron_value v;
    if (cron_parse_accept(s, '*'))
        return cron_parse_read_star(s);
    if (cron_parse_accept(s, '?'))
        return cron_parse_read_any_day(s);
    if (is_alpha(cron_parse_peek(s)))
        return cron_parse_read_word(s);
    if (s->at < s->end && !is_digit(cron_parse_peek(s)))
        return cron_parse_unexpected_error(s, "");
    enum err rc = cron_parse_read_value(s, &v);
    return rc ? rc : cron_parse_read_value_tail(s, v);
}

static enum err cron_parse_read_field(struct cron_scan *s)
{
    struct cron_field *field = &s->syntax->fields[s->field];
    field->first = (uint8_t)s->syntax->item_count;
    field->any = cron_parse_peek(s) == '*' || cron_parse_peek(s) == '?';
    do {
        enum err rc = cron_parse_read_item(s);
        if (rc)
            return rc;
    } while (cron_parse_accept(s, ','));
    return s->at == s->end ? ERR_OK : cron_parse_unexpected_error(s, "");
}

static bool cron_parse_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool cron_parse_is_not_blank(char c)
{
    return !cron_parse_is_blank(c);
}

static size_t cron_parse_count_fields(struct str text)
{
    struct cron_scan s = { .text = text, .end = text.n };
    size_t count = 0;
    for (cron_parse_take_run(&s, cron_parse_is_blank); s.at < s.end;
         cron_parse_take_run(&s, cron_parse_is_blank), count++)
        cron_parse_take_run(&s, cron_parse_is_not_blank);
    return count;
}

/* Reads all fields. Their number has been checked. */
static enum err cron_parse_read_fields(struct str text, struct cron_syntax *syntax, struct error *e)
{
    struct cron_scan s = { .text = text, .syntax = syntax, .e = e };
    if (!syntax->has_seconds)
        cron_parse_add_item(&s, (struct cron_item){ .kind = CRON_SPAN });
    for (unsigned id = syntax->has_seconds ? CRON_SECOND : CRON_MINUTE; id < CRON_FIELDS; id++) {
        s.field = (enum cron_field_id)id;
        s.end = text.n;
        cron_parse_take_run(&s, cron_parse_is_blank);
        size_t from = s.at;
        cron_parse_take_run(&s, cron_parse_is_not_blank);
        s.end = s.at;
        s.at = from;
        enum err rc = cron_parse_read_field(&s);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static enum err cron_parse_macro_error(struct str word, struct error *e)
{
    for (size_t i = 0; i < array_count(macros); i++)
        if (macros[i].expression && str_distance(word, str_from(macros[i].name)) <= 2)
            return error_field(e, "expression", "this macro is not known; did you mean %s?", macros[i].name);
    return error_field(e, "expression",
                       "this macro is not known; there are @yearly, @monthly, @weekly, @daily, @midnight and @hourly");
}

static enum err cron_parse_read_macro(struct str text, struct cron_syntax *syntax, struct error *e)
{
    struct cron_scan s = { .text = text, .end = text.n };
    struct str word = cron_parse_take_run(&s, cron_parse_is_not_blank);
    for (size_t i = 0; i < array_count(macros); i++) {
        if (!str_eq_nocase(word, str_from(macros[i].name)))
            continue;
        if (!macros[i].expression)
            return error_field(e, "expression", "%s %s", macros[i].name, macros[i].reason);
        if (word.n < text.n)
            return error_field(e, "expression", "nothing may follow %s", macros[i].name);
        return cron_parse_read_fields(str_from(macros[i].expression), syntax, e);
    }
    return cron_parse_macro_error(word, e);
}

/* Detects a setting such as CRON_TZ=… in front, which some other crons accept: with five fields it would look like
 * six. */
static bool cron_parse_is_setting(struct str text)
{
    struct cron_scan s = { .text = text, .end = text.n };
    struct str word = cron_parse_take_run(&s, cron_parse_is_not_blank);
    return is_alpha(word.p[0]) && str_find(word, '=', 0) < word.n;
}

static enum err cron_parse_field_count_error(size_t count, struct error *e)
{
    if (count == 7)
        return error_field(e, "expression", "has 7 fields; a year field is not supported");
    return error_field(e, "expression",
                       "has %zu field%s; expected 5 (minute hour day-of-month month day-of-week), or 6 with a second "
                       "in front",
                       count, count == 1 ? "" : "s");
}

enum err cron_syntax_parse(struct str text, struct cron_syntax *ret, struct error *e)
{
    struct cron_syntax syntax = { .item_count = 0 };
    if (text.n > CRON_TEXT_MAX)
        return error_field(e, "expression", "is %zu characters long; at most %d are allowed", text.n, CRON_TEXT_MAX);
    struct str trimmed = str_trim(text);
    if (trimmed.n == 0)
        return error_field(e, "expression", "is empty; expected 5 fields, as in '0 8 * * MON-FRI'");
    enum err rc;
    size_t count = cron_parse_count_fields(text);
    if (cron_parse_is_setting(trimmed)) {
        rc = error_field(e, "expression", "begins with a setting; a time zone is given apart from the expression");
    } else if (trimmed.p[0] == '@') {
        rc = cron_parse_read_macro(trimmed, &syntax, e);
    } else if (count == 5 || count == 6) {
        syntax.has_seconds = count == 6;
        rc = cron_parse_read_fields(text, &syntax, e);
    } else {
        rc = cron_parse_field_count_error(count, e);
    }
    if (!rc)
        *ret = syntax;
    return rc;
}
