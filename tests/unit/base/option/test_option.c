#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/option/option.h"

static const struct option rows[] = {
    { .key = "api.listen",
      .flag = "listen",
      .type = OPTION_TEXT,
      .value = "ADDRESS",
      .preset = "127.0.0.1:8080",
      .help = "where the API listens" },
    { .key = "count",
      .flag = "count",
      .letter = 'n',
      .type = OPTION_INT,
      .value = "N",
      .preset = "5",
      .min = 1,
      .max = 1000,
      .help = "how many fires to print" },
    { .key = "color", .flag = "color", .type = OPTION_FLAG, .preset = "true", .help = "colours on a terminal" },
    { .key = "log.verbose", .flag = "verbose", .letter = 'v', .type = OPTION_FLAG, .help = "say more" },
    { .key = "api.read-timeout",
      .type = OPTION_DURATION,
      .preset = "30s",
      .min = 1000,
      .max = 3600000,
      .help = "how long a request may take" },
    { .flag = "from", .type = OPTION_TIME, .value = "TIME", .help = "the first instant" },
    { .key = "dst.gap",
      .flag = "dst-gap",
      .type = OPTION_CHOICE,
      .value = "POLICY",
      .preset = "shift",
      .choices = "shift|skip",
      .help = "what becomes of a time that a zone leaves out" },
    { .flag = "method", .letter = 'X', .type = OPTION_TEXT, .value = "METHOD", .help = "the request's method" },
    { .key = "headers",
      .flag = "header",
      .letter = 'H',
      .type = OPTION_LIST,
      .value = "LINE",
      .help = "a header to send" },
    { .key = "offset", .flag = "offset", .type = OPTION_INT, .help = "any number" },
    { .flag = "no-wait", .letter = 'q', .type = OPTION_FLAG, .help = "return at once" },
};

/* Options and the arguments they borrow from. */
struct line {
    struct options o;
    struct error e;
    char text[1024];
    char *argv[128];
    int argc;
};

static int setup(void **state)
{
    struct line *l = xnew(*l);
    options_init(&l->o, rows, array_count(rows));
    *state = l;
    return 0;
}

static int teardown(void **state)
{
    struct line *l = *state;
    options_release(&l->o);
    free(l);
    return 0;
}

/* args are separated by '|'. May be called again: the values stay, the words are replaced. */
static enum err flags(struct line *l, const char *args)
{
    free(l->o.words);
    l->o.words = NULL;
    l->o.word_count = 0;
    l->argc = 0;
    assert_true((size_t)snprintf(l->text, sizeof l->text, "%s", args) < sizeof l->text);
    for (char *p = l->text; p;) {
        char *end = strchr(p, '|');
        l->argv[l->argc++] = p;
        if (end)
            *end++ = '\0';
        p = end;
    }
    return options_parse_flags(&l->o, l->argc, l->argv, &l->e);
}

static enum err file(struct line *l, const char *text)
{
    return options_parse_file(&l->o, "belfry.conf", str_from(text), &l->e);
}

static int64_t number(struct line *l, const char *name)
{
    return option_get(&l->o, name)->number;
}

#define assert_error(l, field_, text_)                                                                                 \
    do {                                                                                                               \
        assert_string_equal((l)->e.field, (field_));                                                                   \
        assert_string_equal((l)->e.text, (text_));                                                                     \
    } while (0)

static void presets_stand_until_something_is_given(void **state)
{
    struct line *l = *state;
    assert_str(option_get(&l->o, "listen")->text, "127.0.0.1:8080");
    assert_int_equal(number(l, "count"), 5);
    assert_int_equal(number(l, "color"), 1);
    assert_int_equal(number(l, "api.read-timeout"), 30000);
    assert_int_equal(number(l, "dst-gap"), 0);
    assert_null(option_get(&l->o, "method")->text.p);
    assert_int_equal(option_get(&l->o, "method")->source, FROM_NOWHERE);
    assert_int_equal(option_get(&l->o, "count")->source, FROM_PRESET);
    assert_false(option_given(&l->o, "count"));
    assert_false(option_given(&l->o, "method"));
}

static void every_way_to_write_a_flag_is_read(void **state)
{
    struct line *l = *state;
    assert_ok(flags(l, "--count|7"), &l->e);
    assert_int_equal(number(l, "count"), 7);
    assert_true(option_given(&l->o, "count"));
    assert_ok(flags(l, "--count=8"), &l->e);
    assert_int_equal(number(l, "count"), 8);
    assert_ok(flags(l, "-n|9"), &l->e);
    assert_int_equal(number(l, "count"), 9);
    assert_ok(flags(l, "-n10"), &l->e);
    assert_int_equal(number(l, "count"), 10);
    assert_ok(flags(l, "-XPOST|--verbose|--no-color"), &l->e);
    assert_str(option_get(&l->o, "method")->text, "POST");
    assert_int_equal(number(l, "verbose"), 1);
    assert_int_equal(number(l, "color"), 0);
    assert_ok(flags(l, "--no-verbose|--color|--no-wait"), &l->e);
    assert_int_equal(number(l, "verbose"), 0);
    assert_int_equal(number(l, "color"), 1);
    assert_int_equal(number(l, "no-wait"), 1); /* a flag of this name, not the negation of another */
    assert_ok(flags(l, "--no-no-wait|-vqn3"), &l->e);
    assert_int_equal(number(l, "verbose") * 100 + number(l, "no-wait") * 10 + number(l, "count"), 113);
    assert_ok(flags(l, "--method=|--from=2026-02-10T08:00:00Z|--dst-gap|SKIP"), &l->e);
    assert_str(option_get(&l->o, "method")->text, "");
    assert_int_equal(number(l, "from"), 1770710400000);
    assert_int_equal(number(l, "dst-gap"), 1);
    assert_ok(flags(l, "--offset|-5"), &l->e);
    assert_int_equal(number(l, "offset"), -5);
    assert_ok(flags(l, "--method|-"), &l->e);
    assert_str(option_get(&l->o, "method")->text, "-");
    assert_ok(flags(l, "--method=--count"), &l->e);
    assert_str(option_get(&l->o, "method")->text, "--count");
}

static void words_stand_anywhere_and_end_the_options_behind_two_dashes(void **state)
{
    struct line *l = *state;
    assert_ok(flags(l, "next|--count|3|* * * * *|-||-v|--|--count|--|-x"), &l->e);
    static const char *const expected[] = { "next", "* * * * *", "-", "", "--count", "--", "-x" };
    assert_int_equal(l->o.word_count, array_count(expected));
    for (size_t i = 0; i < array_count(expected); i++)
        assert_str(l->o.words[i], expected[i]);
    assert_int_equal(number(l, "count"), 3);
    assert_int_equal(number(l, "verbose"), 1);
}

static void no_arguments_are_fine(void **state)
{
    struct line *l = *state;
    assert_ok(options_parse_flags(&l->o, 0, NULL, &l->e), &l->e);
    assert_int_equal(l->o.word_count, 0);
}

static void a_list_grows_with_each_flag_up_to_its_limit(void **state)
{
    struct line *l = *state;
    assert_ok(flags(l, "-H|a: 1|--header|b: 2|-Hc"), &l->e);
    const struct option_value *v = option_get(&l->o, "header");
    assert_int_equal(v->list_count, 3);
    assert_str(v->list[0], "a: 1");
    assert_str(v->list[2], "c");
    assert_str(v->text, "c");
    for (size_t i = v->list_count; i < OPTION_LIST_MAX; i++)
        assert_ok(flags(l, "-Hx"), &l->e);
    assert_int_equal(flags(l, "-Hx"), ERR_INVALID);
    assert_error(l, "-H", "may be given at most 64 times");
}

static void flags_that_are_wrong_say_what_would_be_right(void **state)
{
    struct line *l = *state;
    static const struct {
        const char *args, *field, *text;
    } wrong[] = {
        { "--cuont|3", "--cuont", "is not an option, did you mean --count?" },
        { "--cuont=3", "--cuont", "is not an option, did you mean --count?" },
        { "--zebra", "--zebra", "is not an option" },
        { "--no-count", "--no-count", "is not an option, did you mean --count?" },
        { "--no-zebra", "--no-zebra", "is not an option" },
        { "--=3", "--", "is not an option" },
        { "-z", "-z", "is not an option" },
        { "-count", "-count", "is not an option, did you mean --count?" },
        { "-vz", "-z", "is not an option" },
        { "--count", "--count", "needs a value" },
        { "-n", "-n", "needs a value" },
        { "--count|--verbose", "--count", "needs a value, but '--verbose' is an option" },
        { "--method|--no-color", "--method", "needs a value, but '--no-color' is an option" },
        { "--method|--count=3", "--method", "needs a value, but '--count=3' is an option" },
        { "--method|-v", "--method", "needs a value, but '-v' is an option" },
        { "--method|--", "--method", "needs a value, but '--' is an option" },
        { "--verbose=1", "--verbose", "takes no value" },
        { "--no-color=1", "--no-color", "takes no value" },
        { "--count|0", "--count", "must be between 1 and 1000, not '0'" },
        { "-n1001", "-n", "must be between 1 and 1000, not '1001'" },
        { "--count|five", "--count", "must be a whole number between 1 and 1000, not 'five'" },
        { "--count=", "--count", "must be a whole number between 1 and 1000, not ''" },
        { "--offset|x", "--offset", "must be a whole number, not 'x'" },
        { "--offset|9223372036854775808", "--offset", "must be a whole number, not '9223372036854775808'" },
        { "--dst-gap|jump", "--dst-gap", "must be one of shift, skip, not 'jump'" },
        { "--from|now", "--from", NULL },
        { "--from|2026-02-30T00:00:00Z", "--from", "has day 30, which does not exist in February" },
    };
    for (size_t i = 0; i < array_count(wrong); i++) {
        assert_int_equal(flags(l, wrong[i].args), ERR_INVALID);
        assert_string_equal(l->e.field, wrong[i].field);
        if (wrong[i].text)
            assert_string_equal(l->e.text, wrong[i].text);
        assert_true(l->e.text[0]);
    }
    assert_int_equal(number(l, "count"), 5); /* no invalid value was stored */
}

static const char *variable(const char *name)
{
    static const char *const set[][2] = {
        { "BELFRY_API_LISTEN", "0.0.0.0:80" },      { "BELFRY_COUNT", "12" },    { "BELFRY_API_READ_TIMEOUT", "2m" },
        { "BELFRY_LOG_VERBOSE", "true" },           { "BELFRY_COLOR", "false" }, { "BELFRY_HEADERS", "a, b" },
        { "BELFRY_METHOD", "ignored: has no key" },
    };
    for (size_t i = 0; i < array_count(set); i++)
        if (strcmp(set[i][0], name) == 0)
            return set[i][1];
    return NULL;
}

static void variables_are_named_after_keys(void **state)
{
    struct line *l = *state;
    assert_ok(options_parse_env(&l->o, variable, &l->e), &l->e);
    assert_str(option_get(&l->o, "listen")->text, "0.0.0.0:80");
    assert_int_equal(option_get(&l->o, "listen")->source, FROM_ENV);
    assert_int_equal(number(l, "count"), 12);
    assert_int_equal(number(l, "api.read-timeout"), 120000);
    assert_int_equal(number(l, "verbose"), 1);
    assert_int_equal(number(l, "color"), 0);
    assert_int_equal(option_get(&l->o, "header")->list_count, 1);
    assert_str(option_get(&l->o, "header")->list[0], "a, b");
    assert_false(option_given(&l->o, "method"));
}

static const char *bad_count(const char *name)
{
    return strcmp(name, "BELFRY_COUNT") == 0 ? "many" : NULL;
}

static const char *bad_flag(const char *name)
{
    return strcmp(name, "BELFRY_LOG_VERBOSE") == 0 ? "1" : NULL;
}

static const char *bad_timeout(const char *name)
{
    return strcmp(name, "BELFRY_API_READ_TIMEOUT") == 0 ? "5" : NULL;
}

static void a_wrong_variable_is_named_even_if_a_flag_outweighs_it(void **state)
{
    struct line *l = *state;
    assert_ok(flags(l, "--count|3"), &l->e);
    assert_int_equal(options_parse_env(&l->o, bad_count, &l->e), ERR_INVALID);
    assert_error(l, "BELFRY_COUNT", "must be a whole number between 1 and 1000, not 'many'");
    assert_int_equal(options_parse_env(&l->o, bad_flag, &l->e), ERR_INVALID);
    assert_error(l, "BELFRY_LOG_VERBOSE", "must be true or false, not '1'");
    assert_int_equal(options_parse_env(&l->o, bad_timeout, &l->e), ERR_INVALID);
    assert_string_equal(l->e.field, "BELFRY_API_READ_TIMEOUT");
    assert_says(&l->e, "needs a unit");
}

static void the_weightier_source_wins_whatever_the_order(void **state)
{
    (void)state;
    static const char *const orders[] = { "fec", "fce", "ecf", "efc", "cfe", "cef" };
    for (size_t i = 0; i < array_count(orders); i++) {
        struct line *l;
        setup((void **)&l);
        for (const char *c = orders[i]; *c; c++) {
            if (*c == 'f')
                assert_ok(flags(l, "--count|1|-Hflag"), &l->e);
            else if (*c == 'e')
                assert_ok(options_parse_env(&l->o, variable, &l->e), &l->e);
            else
                assert_ok(file(l, "count = 2\napi.listen = file\nheaders = file\ndst.gap = skip\n"), &l->e);
        }
        assert_int_equal(number(l, "count"), 1);
        assert_str(option_get(&l->o, "listen")->text, "0.0.0.0:80");
        assert_int_equal(number(l, "dst-gap"), 1);
        assert_int_equal(option_get(&l->o, "header")->list_count, 1);
        assert_str(option_get(&l->o, "header")->list[0], "flag");
        teardown((void **)&l);
    }
}

static void a_file_has_sections_comments_and_quotes(void **state)
{
    struct line *l = *state;
    assert_ok(file(l, "# first\r\n"
                      "\n"
                      "  count=7 # trailing\r\n"
                      "color = false\n"
                      "[ api ]  # section\n"
                      "\tlisten = \"a \\\"b\\\" \\\\ \\n\\t#\" # comment\n"
                      "read-timeout = 1m30s\n"
                      "[log]\n"
                      "verbose = true"),
              &l->e);
    assert_int_equal(number(l, "count"), 7);
    assert_int_equal(number(l, "color"), 0);
    assert_str(option_get(&l->o, "listen")->text, "a \"b\" \\ \n\t#");
    assert_int_equal(number(l, "api.read-timeout"), 90000);
    assert_int_equal(number(l, "verbose"), 1);
    assert_int_equal(option_get(&l->o, "count")->source, FROM_FILE);
}

static void bare_values_keep_what_is_no_comment(void **state)
{
    struct line *l = *state;
    assert_ok(file(l, "api.listen = http://x/#top a=b \"c\"  \t# cut\nheaders = \"\"\n"), &l->e);
    const struct option_value *v = option_get(&l->o, "listen");
    assert_str(v->text, "http://x/#top a=b \"c\"");
    assert_int_equal(v->text.p[v->text.n], '\0');
    assert_str(option_get(&l->o, "header")->text, "");
}

static void a_files_values_outlive_its_text(void **state)
{
    struct line *l = *state;
    char text[] = "api.listen = here\nheaders = \"there\"\n";
    assert_ok(options_parse_file(&l->o, "f", str_from(text), &l->e), &l->e);
    memset(text, 'x', sizeof text);
    assert_str(option_get(&l->o, "listen")->text, "here");
    assert_str(option_get(&l->o, "header")->text, "there");
}

static void a_wrong_file_names_line_and_key(void **state)
{
    struct line *l = *state;
    static const struct {
        const char *text, *field, *says;
    } wrong[] = {
        { "\ncount = 0\n", "count", "must be between 1 and 1000, not '0' (belfry.conf:2)" },
        { "[api]\nlisen = x", "api.lisen", "is unknown, did you mean 'api.listen'? (belfry.conf:2)" },
        { "zebra = x", "zebra", "is unknown (belfry.conf:1)" },
        { "method = x", "method", "is unknown (belfry.conf:1)" },
        { "count = 1\n\n[api]\n[x]\ncount=2\n", "x.count", "is unknown, did you mean 'count'? (belfry.conf:5)" },
        { "api.listen = a\n[api]\nlisten = a", "api.listen", "is given twice, first in line 1 (belfry.conf:3)" },
        { "count", "", "a line must be like key = value (belfry.conf:1)" },
        { "= 3", "", "a line must be like key = value (belfry.conf:1)" },
        { "a b = 3", "", "a line must be like key = value (belfry.conf:1)" },
        { "[api\n", "", "a section must be like [api] (belfry.conf:1)" },
        { "[api] x\n", "", "a section must be like [api] (belfry.conf:1)" },
        { "[]\n", "", "a section's name must consist of letters, digits, '.', '_' and '-' (belfry.conf:1)" },
        { "[a/b]\n", "", "a section's name must consist of letters, digits, '.', '_' and '-' (belfry.conf:1)" },
        { "count =", "count", "needs a value; an empty one is \"\" (belfry.conf:1)" },
        { "count = # none", "count", "needs a value; an empty one is \"\" (belfry.conf:1)" },
        { "api.listen = 'x'", "api.listen", "is in single quotes: use double ones, or none (belfry.conf:1)" },
        { "api.listen = \"x", "api.listen", "has no closing quote (belfry.conf:1)" },
        { "api.listen = \"x\\", "api.listen", "has an unknown escape: use \\\" \\\\ \\n or \\t (belfry.conf:1)" },
        { "api.listen = \"\\x\"", "api.listen", "has an unknown escape: use \\\" \\\\ \\n or \\t (belfry.conf:1)" },
        { "api.listen = \"x\" y", "api.listen", "has text after its closing quote (belfry.conf:1)" },
        { "# \xff", "", "a line is not UTF-8 (belfry.conf:1)" },
        { "\n# \x1b", "", "a line holds a control character (belfry.conf:2)" },
        { "api.read-timeout = 2h", "api.read-timeout", "must be between 1s and 1h, not '2h' (belfry.conf:1)" },
        { "color = yes", "color", "must be true or false, not 'yes' (belfry.conf:1)" },
    };
    for (size_t i = 0; i < array_count(wrong); i++) {
        assert_int_equal(file(l, wrong[i].text), ERR_INVALID);
        assert_error(l, wrong[i].field, wrong[i].says);
    }
    assert_int_equal(options_parse_file(&l->o, "f", S("a\0b"), &l->e), ERR_INVALID);
    assert_int_equal(options_parse_file(&l->o, "f", S("count = x"), NULL), ERR_INVALID);
    assert_int_equal(options_parse_file(&l->o, "f", S("count"), NULL), ERR_INVALID);
}

static void keys_and_names_too_long_are_cut_not_overrun(void **state)
{
    struct line *l = *state;
    char text[400], name[600];
    memset(text, 'k', sizeof text);
    text[90] = '=';
    assert_int_equal(options_parse_file(&l->o, "f", (struct str){ text, 100 }, &l->e), ERR_INVALID);
    assert_string_equal(l->e.text, "is unknown (f:1)");
    text[90] = 'k';
    text[200] = '=';
    assert_int_equal(options_parse_file(&l->o, "f", (struct str){ text, 210 }, &l->e), ERR_INVALID);
    assert_says(&l->e, "key = value");
    memcpy(text, "[kkkkk]\n", 8);
    memset(text + 8, 'k', 200);
    text[100] = '=';
    assert_int_equal(options_parse_file(&l->o, "f", (struct str){ text, 110 }, &l->e), ERR_INVALID);
    assert_says(&l->e, "is longer than 95 bytes, the longest key allowed (f:2)");
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(options_parse_file(&l->o, name, S("dst.gap = x"), &l->e), ERR_INVALID);
    assert_says(&l->e, "must be one of shift, skip, not 'x' (nnn");
    assert_int_equal(strcmp(l->e.text + strlen(l->e.text) - 4, "n:1)"), 0);
}

static void a_file_beyond_its_limit_is_refused(void **state)
{
    struct line *l = *state;
    assert_int_equal(options_parse_file(&l->o, "f", (struct str){ "", OPTION_FILE_MAX + 1 }, &l->e), ERR_LIMIT);
    char *text = xmalloc(OPTION_FILE_MAX);
    memset(text, 'x', OPTION_FILE_MAX);
    memcpy(text, "api.listen=", 11);
    struct str bare = { text, OPTION_FILE_MAX };
    assert_ok(options_parse_file(&l->o, "f", bare, &l->e), &l->e);
    assert_ok(options_parse_file(&l->o, "f", bare, &l->e), &l->e);
    assert_int_equal(options_parse_file(&l->o, "f", bare, &l->e), ERR_LIMIT); /* file texts are kept up to a limit */
    text[11] = text[OPTION_FILE_MAX - 1] = '"';
    assert_int_equal(options_parse_file(&l->o, "f", bare, &l->e), ERR_LIMIT);
    assert_string_equal(l->e.text, "'f' is too large: its values do not fit in the memory allowed");
    free(text);
}

static void help_is_aligned_with_default_and_range(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 16);
    options_help(rows, array_count(rows), &b);
    assert_str(buf_str(&b),
               "  --listen ADDRESS     where the API listens (default 127.0.0.1:8080)\n"
               "  -n, --count N        how many fires to print (default 5, 1 to 1000)\n"
               "  --color              colours on a terminal (default true)\n"
               "  -v, --verbose        say more\n"
               "  --from TIME          the first instant\n"
               "  --dst-gap POLICY     what becomes of a time that a zone leaves out (default shift, one of shift,\n"
               "                       skip)\n"
               "  -X, --method METHOD  the request's method\n"
               "  -H, --header LINE    a header to send (may be repeated)\n"
               "  --offset VALUE       any number\n"
               "  -q, --no-wait        return at once\n");
    buf_release(&b);
}

static void help_wraps_at_a_hundred_columns_of_characters(void **state)
{
    (void)state;
    static const struct option wide[] = {
        { .flag = "a-very-long-flag-name-indeed",
          .type = OPTION_CHOICE,
          .choices = "first-choice|second-choice",
          .preset = "first-choice",
          .help = "short" },
        { .letter = 'w',
          .type = OPTION_DURATION,
          .value = "D",
          .min = 1000,
          .max = DURATION_MAX_MS,
          .preset = "1h",
          .help =
              "ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé "
              "ünïcödé ünï "
              "and_one_word_that_is_longer_than_a_whole_line_of_help_can_ever_be_and_so_cannot_be_wrapped_at_all_x" },
        { .flag = "quiet", .type = OPTION_FLAG, .preset = "false", .help = "no default worth a word" },
    };
    struct buf b;
    buf_init(&b, 1 << 16);
    options_help(wide, array_count(wide), &b);
    assert_str(buf_str(&b),
               "  --a-very-long-flag-name-indeed first-choice|second-choice\n"
               "           short (default first-choice)\n"
               "  -w D     ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé ünï\n"
               "           and_one_word_that_is_longer_than_a_whole_line_of_help_can_ever_be_and_so_cannot_be_wrapped_"
               "at_all_x\n"
               "           (default 1h, at least 1s)\n"
               "  --quiet  no default worth a word\n");
    buf_release(&b);
}

static const struct option brokers[] = {
    { .key = "brokers.*", .flag = "broker", .type = OPTION_LIST, .value = "NAME=URL", .help = "where to" },
    { .key = "count", .flag = "count", .type = OPTION_INT, .help = "how many" },
};

static void a_family_of_keys_is_a_list_of_names_and_texts(void **state)
{
    (void)state;
    struct options o;
    struct error e;
    options_init(&o, brokers, array_count(brokers));
    assert_ok(options_parse_file(&o, "f", S("[brokers]\na = x=1\nb.c = \"y\"\n"), &e), &e);
    const struct option_value *v = option_get(&o, "broker");
    assert_int_equal(v->list_count, 2);
    assert_str(v->list[0], "a=x=1");
    assert_str(v->list[1], "b.c=y");
    assert_int_equal(options_parse_file(&o, "f", S("brokers.a = z"), &e), ERR_INVALID);
    assert_says(&e, "is given twice");
    assert_int_equal(options_parse_file(&o, "f", S("brokers. = z"), &e), ERR_INVALID); /* without a name */
    options_release(&o);
}

static void what_belongs_to_others_who_share_the_file_is_passed_over(void **state)
{
    (void)state;
    struct options o;
    struct error e;
    options_init(&o, brokers, array_count(brokers));
    assert_int_equal(options_parse_file(&o, "f", S("color = true"), &e), ERR_INVALID);
    o.beside = rows;
    o.beside_count = array_count(rows);
    assert_ok(options_parse_file(&o, "f", S("color = true\ncount = 3\n"), &e), &e);
    assert_int_equal(option_get(&o, "count")->number, 3);
    assert_int_equal(options_parse_file(&o, "f", S("zebra = true"), &e), ERR_INVALID);
    assert_int_equal(options_parse_file(&o, "f", S("color = \"true"), &e), ERR_INVALID); /* the line must be valid */
    options_release(&o);
}

int main(void)
{
#define WITH_LINE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_LINE(presets_stand_until_something_is_given),
        WITH_LINE(every_way_to_write_a_flag_is_read),
        WITH_LINE(words_stand_anywhere_and_end_the_options_behind_two_dashes),
        WITH_LINE(no_arguments_are_fine),
        WITH_LINE(a_list_grows_with_each_flag_up_to_its_limit),
        WITH_LINE(flags_that_are_wrong_say_what_would_be_right),
        WITH_LINE(variables_are_named_after_keys),
        WITH_LINE(a_wrong_variable_is_named_even_if_a_flag_outweighs_it),
        cmocka_unit_test(the_weightier_source_wins_whatever_the_order),
        WITH_LINE(a_file_has_sections_comments_and_quotes),
        WITH_LINE(bare_values_keep_what_is_no_comment),
        WITH_LINE(a_files_values_outlive_its_text),
        WITH_LINE(a_wrong_file_names_line_and_key),
        WITH_LINE(keys_and_names_too_long_are_cut_not_overrun),
        WITH_LINE(a_file_beyond_its_limit_is_refused),
        cmocka_unit_test(a_family_of_keys_is_a_list_of_names_and_texts),
        cmocka_unit_test(what_belongs_to_others_who_share_the_file_is_passed_over),
        cmocka_unit_test(help_is_aligned_with_default_and_range),
        cmocka_unit_test(help_wraps_at_a_hundred_columns_of_characters),
    };
    return cmocka_run_group_tests_name("option", tests, NULL, NULL);
}
