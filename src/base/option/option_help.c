/* Two columns: the flag and its description. The left column is as wide as its widest entry, up to LEFT_MAX; the right
 * column is wrapped. */
#include "base/option/option_internal.h"

enum { INDENT = 2, GAP = 2, LEFT_MAX = 36, LINE_WIDTH = 100, NOTE_MAX = 4096 };

static bool option_help_is_shown(const struct option *row)
{
    return row->flag || row->letter;
}

/* Width of a text in columns, one per character. */
static size_t option_help_width(struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += (s.p[i] & 0xC0) != 0x80;
    return n;
}

static void option_help_spaces(struct buf *out, size_t n)
{
    while (n-- > 0)
        buf_char(out, ' ');
}

/* "-X, --method METHOD" */
static void option_help_write_left(const struct option *row, struct buf *out)
{
    if (row->letter)
        buf_printf(out, "-%c%s", row->letter, row->flag ? ", " : "");
    if (row->flag)
        buf_printf(out, "--%s", row->flag);
    const char *value = row->value ? row->value : row->choices;
    if (row->type != OPTION_FLAG)
        buf_printf(out, " %s", value ? value : "VALUE");
}

/* Writes "1 to 1000", "at least 1", "one of shift, skip", "may be repeated", or nothing. */
static void option_help_write_range(const struct option *row, struct buf *out)
{
    if (row->type == OPTION_CHOICE && row->value) {
        struct str rest = str_from(row->choices), choice;
        for (const char *before = "one of "; str_cut(&rest, '|', &choice); before = ", ")
            buf_printf(out, "%s" STR_FMT, before, STR_ARG(choice));
    }
    if (row->type == OPTION_LIST)
        buf_text(out, "may be repeated");
    if (row->type == OPTION_INT || row->type == OPTION_DURATION) {
        char text[RANGE_TEXT];
        range_short_text(option_range(row), text);
        buf_text(out, text);
    }
}

/* Writes the description with default and range: "how many to print (default 5, 1 to 1000)". */
static void option_help_write_right(const struct option *row, struct buf *out)
{
    cleanup_with(buf_release) struct buf range;
    buf_init(&range, NOTE_MAX);
    option_help_write_range(row, &range);
    bool has_preset = row->preset && row->preset[0] && !(row->type == OPTION_FLAG && strcmp(row->preset, "false") == 0);
    struct str verbs = row->only ? str_from(row->only) : S(""), verb;
    for (const char *before = ""; str_cut(&verbs, '|', &verb); before = ", ")
        buf_printf(out, "%s" STR_FMT, before, STR_ARG(verb));
    buf_printf(out, "%s%s", row->only ? ": " : "", row->help);
    if (has_preset)
        buf_printf(out, " (default %s", row->preset);
    if (range.n)
        buf_printf(out, "%s%s", has_preset ? ", " : " (", buf_cstr(&range));
    if (has_preset || range.n)
        buf_char(out, ')');
}

static void option_help_write_wrapped(struct buf *out, struct str text, size_t column)
{
    size_t at = column;
    struct str word;
    while (str_cut(&text, ' ', &word)) {
        if (at > column && at + 1 + option_help_width(word) > LINE_WIDTH) {
            buf_char(out, '\n');
            option_help_spaces(out, column);
            at = column;
        } else if (at > column) {
            buf_char(out, ' ');
            at++;
        }
        buf_add(out, word);
        at += option_help_width(word);
    }
    buf_char(out, '\n');
}

static size_t option_help_left_width(const struct option *rows, size_t count, struct buf *scratch)
{
    size_t widest = 0;
    for (size_t i = 0; i < count; i++) {
        buf_reset(scratch);
        option_help_write_left(&rows[i], scratch);
        size_t n = option_help_width(buf_str(scratch));
        if (option_help_is_shown(&rows[i]) && n <= LEFT_MAX)
            widest = max_of(widest, n);
    }
    return widest;
}

void options_help(const struct option *rows, size_t count, struct buf *out)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, NOTE_MAX);
    size_t left = option_help_left_width(rows, count, &text), column = INDENT + left + GAP;
    for (size_t i = 0; i < count; i++) {
        if (!option_help_is_shown(&rows[i]))
            continue;
        buf_reset(&text);
        option_help_write_left(&rows[i], &text);
        size_t n = option_help_width(buf_str(&text));
        option_help_spaces(out, INDENT);
        buf_add(out, buf_str(&text));
        if (n > left) { /* wider than its column: the description starts on the next line */
            buf_char(out, '\n');
            n = 0;
            option_help_spaces(out, INDENT);
        }
        option_help_spaces(out, left + GAP - n);
        buf_reset(&text);
        option_help_write_right(&rows[i], &text);
        option_help_write_wrapped(out, buf_str(&text), column);
    }
}
