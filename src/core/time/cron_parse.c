/* From text to items, one character of lookahead. Positions in sentences count from 1 in the text as it was given.
 * Bytes of the text reach a sentence only through byte_name or when they are known to be letters or digits. */
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
    const char *name, *expression; /* expression NULL: refused, because: */
    const char *reason;
} macros[] = {
    { "@yearly", "0 0 1 1 *", NULL },
    { "@annually", "0 0 1 1 *", NULL },
    { "@monthly", "0 0 1 * *", NULL },
    { "@weekly", "0 0 * * 0", NULL },
    { "@daily", "0 0 * * *", NULL },
    { "@midnight", "0 0 * * *", NULL },
    { "@hourly", "0 * * * *", NULL },
    { "@reboot", NULL, "there is no boot to follow; run a one-time task at start" },
    { "@every", NULL, "is not a cron expression; use an interval instead" },
};

/* Characters with a meaning in some fields only, for whoever puts them elsewhere. */
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

struct scan {
    struct str text;
    size_t at, end; /* of the field being read */
    enum cron_field_id field;
    struct cron_syntax *syntax;
    struct error *e;
};

struct value {
    uint8_t v;
    bool named;
};

#define refuse(s, ...) error_field((s)->e, cron_rules[(s)->field].name, __VA_ARGS__)

/* "'x'", or "byte 0x07" for what would garble a terminal or is no ASCII. */
struct byte_name {
    char text[16];
};

static struct byte_name byte_name(char c)
{
    struct byte_name name;
    snprintf(name.text, sizeof name.text, c >= ' ' && c <= '~' ? "'%c'" : "byte 0x%02X", (unsigned char)c);
    return name;
}

/* NUL at the field's end, which no character that is asked for equals. */
static char peek(const struct scan *s)
{
    return s->at < s->end ? s->text.p[s->at] : '\0';
}

static bool accept(struct scan *s, char c)
{
    if (ascii_lower(peek(s)) != ascii_lower(c))
        return false;
    s->at++;
    return true;
}

static struct str run_of(struct scan *s, bool (*belongs)(char))
{
    size_t from = s->at;
    while (s->at < s->end && belongs(s->text.p[s->at]))
        s->at++;
    return str_sub(s->text, from, s->at);
}

static const char *hint_for(char c)
{
    for (size_t i = 0; i < array_count(elsewhere); i++)
        if (ascii_lower(elsewhere[i].c) == ascii_lower(c))
            return elsewhere[i].hint;
    return "";
}

/* What stands here does not belong here, or nothing stands here though something should. */
static enum err unexpected(const struct scan *s, const char *wanted)
{
    if (s->at == s->end)
        return refuse(s, "%s is missing after %s at position %zu", wanted, byte_name(s->text.p[s->at - 1]).text, s->at);
    char c = s->text.p[s->at];
    const char *hint = (unsigned char)c >= 0x80 ? "; only plain ASCII is understood" : hint_for(c);
    return refuse(s, "unexpected %s at position %zu%s", byte_name(c).text, s->at + 1, hint);
}

static enum err out_of_range(const struct scan *s, struct str digits, int min, int max, const char *hint)
{
    int shown = (int)min_of(digits.n, (size_t)9);
    return refuse(s, "%.*s%s is not between %d and %d, at position %zu%s", shown, digits.p, digits.n > 9 ? "..." : "",
                  min, max, (size_t)(digits.p - s->text.p) + 1, hint);
}

static enum err read_number(struct scan *s, int min, int max, uint8_t *ret)
{
    struct str digits = run_of(s, is_digit);
    int64_t v;
    if (digits.n == 0)
        return unexpected(s, "a value");
    if (!str_to_i64(digits, min, max, &v))
        return out_of_range(s, digits, min, max, "");
    *ret = (uint8_t)v;
    return ERR_OK;
}

/* A step beyond the field would silently be the field's own period: whoever writes it wants something else. */
static enum err read_step(struct scan *s, uint8_t *ret)
{
    struct str digits = run_of(s, is_digit);
    int64_t v;
    if (digits.n == 0)
        return unexpected(s, "a step");
    if (str_to_i64(digits, 0, 0, &v))
        return refuse(s, "step 0 at position %zu would never move on; write 1 or more",
                      (size_t)(digits.p - s->text.p) + 1);
    if (!str_to_i64(digits, 1, cron_rules[s->field].values, &v))
        return out_of_range(s, digits, 1, cron_rules[s->field].values, "; for longer periods use an interval");
    *ret = (uint8_t)v;
    return ERR_OK;
}

/* Index of a name in the rule's tables, or -1. */
static int find_name(const struct cron_rule *rule, struct str word)
{
    for (int i = 0; rule->names && i < rule->values; i++)
        if (str_eq_nocase(word, str_from(rule->names[i])) || str_eq_nocase(word, str_from(rule->long_names[i])))
            return i;
    return -1;
}

static enum err unknown_name(const struct scan *s, struct str word)
{
    const struct cron_rule *rule = &cron_rules[s->field];
    size_t position = (size_t)(word.p - s->text.p) + 1;
    int shown = (int)min_of(word.n, (size_t)20);
    const char *hint = hint_for(word.p[0]);
    if (!rule->names)
        return refuse(s, "'%.*s' at position %zu is not a number%s", shown, word.p, position, hint);
    for (int i = 0; i < rule->values; i++)
        if (str_distance(word, str_from(rule->names[i])) <= 1 || str_distance(word, str_from(rule->long_names[i])) <= 2)
            return refuse(s, "'%.*s' at position %zu is not a %s; did you mean %s?", shown, word.p, position,
                          rule->name, rule->names[i]);
    return refuse(s, "'%.*s' at position %zu is not a %s; write %s to %s or %d to %d", shown, word.p, position,
                  rule->name, rule->names[0], rule->names[rule->end - rule->min], rule->min, rule->end);
}

static enum err read_value(struct scan *s, struct value *ret)
{
    const struct cron_rule *rule = &cron_rules[s->field];
    ret->named = is_alpha(peek(s));
    if (!ret->named)
        return read_number(s, rule->min, rule->max, &ret->v);
    struct str word = run_of(s, is_alpha);
    int index = find_name(rule, word);
    if (index < 0)
        return unknown_name(s, word);
    ret->v = (uint8_t)(index + rule->min);
    return ERR_OK;
}

static void put_value(char *out, size_t size, const struct cron_rule *rule, int v, bool named)
{
    if (named)
        snprintf(out, size, "%s", rule->names[v - rule->min]);
    else
        snprintf(out, size, "%d", v);
}

/* "5-7", or "7" when that is all of it; nothing when to lies before from. */
static void add_span(char *out, size_t size, const struct cron_rule *rule, int from, int to, bool named)
{
    char low[8], high[8];
    size_t n = strlen(out);
    if (from > to)
        return;
    put_value(low, sizeof low, rule, from, named);
    put_value(high, sizeof high, rule, to, named);
    snprintf(out + n, size - n, "%s%s%s%s", n ? "," : "", low, from < to ? "-" : "", from < to ? high : "");
}

/* Says what to write instead: FRI-SUN,MON for FRI-MON, 22-23,0-6 for 22-6. */
static enum err backwards(const struct scan *s, struct value from, struct value to)
{
    const struct cron_rule *rule = &cron_rules[s->field];
    bool weekday = s->field == CRON_WEEKDAY, named = from.named || to.named;
    char low[8], high[8], remedy[40] = "";
    put_value(low, sizeof low, rule, from.v, from.named);
    put_value(high, sizeof high, rule, to.v, to.named);
    if (weekday && from.v == 7) {
        add_span(remedy, sizeof remedy, rule, 0, to.v, named);
    } else {
        add_span(remedy, sizeof remedy, rule, from.v, rule->max, named);
        add_span(remedy, sizeof remedy, rule, weekday ? 1 : rule->min, to.v, named);
    }
    return refuse(s, "range %s-%s runs backwards; write %s", low, high, remedy);
}

/* The end of a range, behind its '-'. SUN as an end is the week's last day, not its first. */
static enum err read_range_end(struct scan *s, struct value from, uint8_t *ret)
{
    struct value to;
    enum err rc = read_value(s, &to);
    if (rc)
        return rc;
    if (s->field == CRON_WEEKDAY && to.named && to.v == 0 && from.v > 0)
        to.v = 7;
    if (to.v < from.v)
        return backwards(s, from, to);
    *ret = to.v;
    return ERR_OK;
}

static void push(struct scan *s, struct cron_item item)
{
    assert(s->syntax->item_count < array_count(s->syntax->items));
    s->syntax->items[s->syntax->item_count++] = item;
    s->syntax->fields[s->field].count++;
}

/* Behind a first value: -b, -b/n, /n, W, L, #n or nothing. */
static enum err read_value_tail(struct scan *s, struct value from)
{
    struct cron_item item = { .kind = CRON_SPAN, .from = from.v, .to = from.v };
    enum err rc = ERR_OK;
    if (s->field == CRON_DAY && accept(s, 'W')) {
        item.kind = CRON_NEAREST_WORKDAY;
    } else if (s->field == CRON_WEEKDAY && accept(s, 'L')) {
        item.kind = CRON_LAST_OF;
    } else if (s->field == CRON_WEEKDAY && accept(s, '#')) {
        item.kind = CRON_NTH;
        rc = read_number(s, 1, 5, &item.nth);
    } else if (accept(s, '-')) {
        item.step = 1;
        rc = read_range_end(s, from, &item.to);
        if (!rc && accept(s, '/'))
            rc = read_step(s, &item.step);
    } else if (accept(s, '/')) {
        item.to = cron_rules[s->field].end;
        rc = read_step(s, &item.step);
    }
    if (s->field == CRON_WEEKDAY && item.from == 7 && (item.kind != CRON_SPAN || item.to < 7))
        item.from = 0; /* 7/2, 7#1 and 7L begin with Sunday, the week's first day */
    if (!rc)
        push(s, item);
    return rc;
}

static enum err read_star(struct scan *s)
{
    const struct cron_rule *rule = &cron_rules[s->field];
    struct cron_item item = { .kind = CRON_SPAN, .from = rule->min, .to = rule->end, .step = 1 };
    enum err rc = accept(s, '/') ? read_step(s, &item.step) : ERR_OK;
    if (!rc)
        push(s, item);
    return rc;
}

static enum err read_any_day(struct scan *s)
{
    bool day_field = s->field == CRON_DAY || s->field == CRON_WEEKDAY;
    if (!day_field || s->at != s->end || s->syntax->fields[s->field].count > 0) {
        s->at--;
        return unexpected(s, "");
    }
    return read_star(s);
}

/* The (a-b) behind an H. */
static enum err read_hash_range(struct scan *s, struct cron_item *item)
{
    struct value from;
    enum err rc = read_value(s, &from);
    if (rc)
        return rc;
    if (!accept(s, '-'))
        return unexpected(s, "the range's end");
    rc = read_range_end(s, from, &item->to);
    if (rc)
        return rc;
    if (!accept(s, ')'))
        return unexpected(s, "')'");
    if (s->field == CRON_DAY && item->to > cron_rules[CRON_DAY].hash_end)
        return refuse(s, "H cannot choose day %d, which some months lack; end its range at 28", item->to);
    item->from = from.v;
    item->bounded = true;
    return ERR_OK;
}

/* With a step the first value is chosen among as many as the step skips, but among those that are sure to exist. */
static enum err read_hash(struct scan *s)
{
    const struct cron_rule *rule = &cron_rules[s->field];
    struct cron_item item = { .kind = CRON_SPAN, .from = rule->min, .to = rule->hash_end };
    enum err rc = accept(s, '(') ? read_hash_range(s, &item) : ERR_OK;
    if (rc)
        return rc;
    item.choices = (uint8_t)(item.to - item.from + 1);
    if (accept(s, '/')) {
        rc = read_step(s, &item.step);
        item.choices = min_of(item.choices, item.step);
        item.to = item.bounded ? item.to : rule->end;
    }
    if (!rc)
        push(s, item);
    return rc;
}

/* L, L-n and LW. */
static enum err read_last_day(struct scan *s, struct str word)
{
    struct cron_item item = { .kind = word.n == 1 ? CRON_LAST : CRON_LAST_WORKDAY };
    enum err rc = word.n == 1 && accept(s, '-') ? read_number(s, 1, 30, &item.from) : ERR_OK;
    if (!rc)
        push(s, item);
    return rc;
}

/* A member that begins with a letter. FRIL is one word, so its L is cut off here. */
static enum err read_word(struct scan *s)
{
    size_t from = s->at;
    struct str word = run_of(s, is_alpha);
    if (str_eq_nocase(word, S("H")))
        return read_hash(s);
    if (s->field == CRON_DAY && (str_eq_nocase(word, S("L")) || str_eq_nocase(word, S("LW"))))
        return read_last_day(s, word);
    if (s->field == CRON_WEEKDAY && str_eq_nocase(word, S("L")))
        return refuse(s, "'L' at position %zu lacks its day; write SATL or 6L for the last Saturday, 6 for Saturday",
                      from + 1);
    struct str head = str_sub(word, 0, word.n - 1);
    if (s->field == CRON_WEEKDAY && ascii_lower(word.p[word.n - 1]) == 'l' &&
        find_name(&cron_rules[CRON_WEEKDAY], head) >= 0)
        word = head;
    struct scan name = *s; /* a name must be all of the word */
    name.at = from;
    name.end = from + word.n;
    struct value v;
    enum err rc = read_value(&name, &v);
    s->at = from + word.n;
    return rc ? rc : read_value_tail(s, v);
}

static enum err read_item(struct scan *s)
{
    struct value v;
    if (accept(s, '*'))
        return read_star(s);
    if (accept(s, '?'))
        return read_any_day(s);
    if (is_alpha(peek(s)))
        return read_word(s);
    if (s->at < s->end && !is_digit(peek(s)))
        return unexpected(s, "");
    enum err rc = read_value(s, &v);
    return rc ? rc : read_value_tail(s, v);
}

static enum err read_field(struct scan *s)
{
    struct cron_field *field = &s->syntax->fields[s->field];
    field->first = (uint8_t)s->syntax->item_count;
    field->any = peek(s) == '*' || peek(s) == '?';
    do {
        enum err rc = read_item(s);
        if (rc)
            return rc;
    } while (accept(s, ','));
    return s->at == s->end ? ERR_OK : unexpected(s, "");
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_no_blank(char c)
{
    return !is_blank(c);
}

static size_t count_fields(struct str text)
{
    struct scan s = { .text = text, .end = text.n };
    size_t count = 0;
    for (run_of(&s, is_blank); s.at < s.end; run_of(&s, is_blank), count++)
        run_of(&s, is_no_blank);
    return count;
}

/* The whole of it, its number of fields known to be right. */
static enum err read_fields(struct str text, struct cron_syntax *syntax, struct error *e)
{
    struct scan s = { .text = text, .syntax = syntax, .e = e };
    if (!syntax->has_seconds)
        push(&s, (struct cron_item){ .kind = CRON_SPAN });
    for (unsigned id = syntax->has_seconds ? CRON_SECOND : CRON_MINUTE; id < CRON_FIELDS; id++) {
        s.field = (enum cron_field_id)id;
        s.end = text.n;
        run_of(&s, is_blank);
        size_t from = s.at;
        run_of(&s, is_no_blank);
        s.end = s.at;
        s.at = from;
        enum err rc = read_field(&s);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static enum err unknown_macro(struct str word, struct error *e)
{
    for (size_t i = 0; i < array_count(macros); i++)
        if (macros[i].expression && str_distance(word, str_from(macros[i].name)) <= 2)
            return error_field(e, "expression", "this macro is not known; did you mean %s?", macros[i].name);
    return error_field(e, "expression",
                       "this macro is not known; there are @yearly, @monthly, @weekly, @daily, @midnight and @hourly");
}

static enum err read_macro(struct str text, struct cron_syntax *syntax, struct error *e)
{
    struct scan s = { .text = text, .end = text.n };
    struct str word = run_of(&s, is_no_blank);
    for (size_t i = 0; i < array_count(macros); i++) {
        if (!str_eq_nocase(word, str_from(macros[i].name)))
            continue;
        if (!macros[i].expression)
            return error_field(e, "expression", "%s: %s", macros[i].name, macros[i].reason);
        if (word.n < text.n)
            return error_field(e, "expression", "nothing may follow %s", macros[i].name);
        return read_fields(str_from(macros[i].expression), syntax, e);
    }
    return unknown_macro(word, e);
}

/* CRON_TZ=… in front, as some other crons take it: with five fields behind it there would be six. */
static bool is_setting(struct str text)
{
    struct scan s = { .text = text, .end = text.n };
    struct str word = run_of(&s, is_no_blank);
    return is_alpha(word.p[0]) && str_find(word, '=', 0) < word.n;
}

static enum err wrong_count(size_t count, struct error *e)
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
    size_t count = count_fields(text);
    if (is_setting(trimmed)) {
        rc = error_field(e, "expression", "begins with a setting; a time zone is given apart from the expression");
    } else if (trimmed.p[0] == '@') {
        rc = read_macro(trimmed, &syntax, e);
    } else if (count == 5 || count == 6) {
        syntax.has_seconds = count == 6;
        rc = read_fields(text, &syntax, e);
    } else {
        rc = wrong_count(count, e);
    }
    if (!rc)
        *ret = syntax;
    return rc;
}
