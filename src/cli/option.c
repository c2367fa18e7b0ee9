/* option.c — reads defaults, environment and command line into options, by the rows of option_table.c.
 *
 * main.c calls it once. All three sources go through one setter, so a value is checked in the same way wherever it
 * comes from; errors call it by the name that the user has written. */
#include "command.h"
#include "nearest.h"
#include "base/mem.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a value comes from: its row, and how errors name it. */
typedef struct source {
    const option_row *row;
    const char *shown; /* "--threads", "-n", "QUIPU_THREADS" */
} source;

static void *field_of(options *o, const option_row *row) { return (char *)o + row->field; }

void option_each_choice(const char *choices, void (*visit)(void *user, const char *choice), void *user) {
    char word[64];
    for (const char *at = choices; *at;) {
        const size_t bytes = strcspn(at, "|");
        snprintf(word, sizeof word, "%.*s", (int)bytes, at);
        visit(user, word);
        at += bytes + (at[bytes] == '|');
    }
}

bool option_is_choice(const char *choices, const char *word) {
    const size_t bytes = strlen(word);
    for (const char *at = choices; *at;) {
        const size_t n = strcspn(at, "|");
        if (n == bytes && !memcmp(at, word, n)) return true;
        at += n + (at[n] == '|');
    }
    return false;
}

void option_environment(char *out, size_t capacity, const char *name) {
    snprintf(out, capacity, "QUIPU_%s", name);
    for (char *c = out; *c; c++) *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

/* ---- values ---- */

static qp_status read_int(int64_t *out, const source *from, const char *text, size_t bytes, qp_error *err) {
    char digits[32], *end;
    snprintf(digits, sizeof digits, "%.*s", (int)(bytes < 31 ? bytes : 31), text);
    errno = 0;
    const long long value = strtoll(digits, &end, 10);
    if (!bytes || bytes > 31 || *end || isspace((unsigned char)*digits))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: '%.*s' is not a whole number", from->shown,
                       (int)(bytes < 80 ? bytes : 80), text);
    if (errno || (double)value < from->row->lowest || (double)value > from->row->highest)
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found %s, allowed are %.0f to %.0f", from->shown, digits,
                       from->row->lowest, from->row->highest);
    *out = value;
    return QP_OK;
}

static qp_status set_flag(void *field, const source *from, const char *text, qp_error *err) {
    if (!text || option_is_choice("1|true|yes|on", text))
        *(bool *)field = true;
    else if (option_is_choice("0|false|no|off", text))
        *(bool *)field = false;
    else
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: '%.80s' is not one of true, false", from->shown, text);
    return QP_OK;
}

static qp_status set_int(void *field, const source *from, const char *text, qp_error *err) {
    return read_int(field, from, text, strlen(text), err);
}

static qp_status read_real(double *out, const source *from, const char *text, size_t bytes, qp_error *err) {
    char digits[80], *end;
    snprintf(digits, sizeof digits, "%.*s", (int)(bytes < 79 ? bytes : 79), text);
    const double value = strtod(digits, &end);
    if (!*digits || bytes > 79 || *end || isspace((unsigned char)*digits) || !isfinite(value))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: '%s' is not a number", from->shown, digits);
    if (value < from->row->lowest || value > from->row->highest)
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found %.40s, allowed are %g to %g", from->shown, digits,
                       from->row->lowest, from->row->highest);
    *out = value;
    return QP_OK;
}

static qp_status set_real(void *field, const source *from, const char *text, qp_error *err) {
    return read_real(field, from, text, strlen(text), err);
}

static qp_status set_text(void *field, const source *from, const char *text, qp_error *err) {
    *(const char **)field = text;
    return QP_OK;
}

static qp_status set_choice(void *field, const source *from, const char *text, qp_error *err) {
    if (!option_is_choice(from->row->choices, text))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found '%.80s', allowed are %s", from->shown, text,
                       from->row->choices);
    *(const char **)field = text;
    return QP_OK;
}

/* Makes room for one more in a list whose array *at has `count` items. */
static qp_status grow(void **at, size_t count, size_t size, const source *from, qp_error *err) {
    void *longer = mem_resize(*at, count + 1, size);
    if (!longer) return err_no_memory(err, (count + 1) * size, from->shown);
    *at = longer;
    return QP_OK;
}

static qp_status add_text(void *field, const source *from, const char *text, qp_error *err) {
    option_texts *list = field;
    void *at = list->at;
    ERR_TRY(grow(&at, list->count, sizeof *list->at, from, err));
    list->at = at;
    list->at[list->count++] = text;
    return QP_OK;
}

static qp_status add_id(void *field, const source *from, const char *text, qp_error *err) {
    option_ids *list = field;
    int64_t id;
    ERR_TRY(read_int(&id, from, text, strlen(text), err));
    void *at = list->at;
    ERR_TRY(grow(&at, list->count, sizeof *list->at, from, err));
    list->at = at;
    list->at[list->count++] = (int32_t)id;
    return QP_OK;
}

static qp_status add_bias(void *field, const source *from, const char *text, qp_error *err) {
    option_biases *list = field;
    const size_t bytes = strcspn(text, ":");
    char *end = NULL;
    int64_t id;
    if (!text[bytes]) return err_set(err, QP_BAD_ARGUMENT, 0, "%s: '%.80s' is not ID:VALUE", from->shown, text);
    ERR_TRY(read_int(&id, from, text, bytes, err));
    const double bias = strtod(text + bytes + 1, &end);
    if (!text[bytes + 1] || *end || isnan(bias) || isspace((unsigned char)text[bytes + 1]))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: '%.80s' is not a number", from->shown, text + bytes + 1);
    void *at = list->at;
    ERR_TRY(grow(&at, list->count, sizeof *list->at, from, err));
    list->at = at;
    list->at[list->count++] = (qp_bias){(int32_t)id, (float)bias};
    return QP_OK;
}

static qp_status set_ints(void *field, const source *from, const char *text, qp_error *err) {
    option_ints list = {.count = 0};
    for (const char *at = text;;) {
        const size_t bytes = strcspn(at, ",");
        if (list.count == OPTION_LIST_MAX)
            return err_set(err, QP_BAD_ARGUMENT, 0, "%s: more than %d numbers", from->shown, OPTION_LIST_MAX);
        ERR_TRY(read_int(&list.at[list.count++], from, at, bytes, err));
        if (!at[bytes]) break;
        at += bytes + 1;
    }
    *(option_ints *)field = list;
    return QP_OK;
}

static qp_status set_reals(void *field, const source *from, const char *text, qp_error *err) {
    option_reals list = {.count = 0};
    for (const char *at = text;;) {
        const size_t bytes = strcspn(at, ",");
        if (list.count == OPTION_LIST_MAX)
            return err_set(err, QP_BAD_ARGUMENT, 0, "%s: more than %d numbers", from->shown, OPTION_LIST_MAX);
        ERR_TRY(read_real(&list.at[list.count++], from, at, bytes, err));
        if (!at[bytes]) break;
        at += bytes + 1;
    }
    *(option_reals *)field = list;
    return QP_OK;
}

static qp_status set_value(options *o, const source *from, const char *text, qp_error *err) {
    static qp_status (*const setters[])(void *, const source *, const char *, qp_error *) = {
        [OPTION_FLAG] = set_flag,     [OPTION_INT] = set_int,     [OPTION_REAL] = set_real, [OPTION_TEXT] = set_text,
        [OPTION_CHOICE] = set_choice, [OPTION_TEXTS] = add_text,  [OPTION_INTS] = set_ints, [OPTION_REALS] = set_reals,
        [OPTION_IDS] = add_id,        [OPTION_BIASES] = add_bias,
    };
    return setters[from->row->kind](field_of(o, from->row), from, text, err);
}

static size_t place_of(const option_row *row) { return (size_t)(row - option_rows); }

/* ---- names ---- */

static const option_row *find_name(unsigned commands, const char *name, size_t bytes) {
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (row->commands & commands && strlen(row->name) == bytes && !memcmp(row->name, name, bytes)) return row;
    return NULL;
}

static const option_row *find_letter(unsigned commands, char letter) {
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (row->commands & commands && row->letter == letter) return row;
    return NULL;
}

static bool is_own(const option_row *row) { return row->group == GROUP_ANSWER || row->group == GROUP_SAMPLING; }

static const char *nearest(const command_row *c, const char *typed, bool only_own) {
    const char *best = "help";
    int best_cost = INT_MAX;
    for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
        if (!(row->commands & c->bit) || (only_own && !is_own(row))) continue;
        const int cost = nearest_cost(typed, row->name);
        if (cost < best_cost) best = row->name, best_cost = cost;
    }
    return best;
}

const char *option_nearest(const command_row *c, const char *typed) { return nearest(c, typed, false); }
const char *option_nearest_own(const command_row *c, const char *typed) { return nearest(c, typed, true); }

/* A known option of other commands. */
static qp_status misplaced(const command_row *c, const char *name, qp_error *err) {
    char owners[200] = "";
    for (const command_row *other = command_rows; other < command_rows + command_count; other++)
        if (find_name(other->bit, name, strlen(name)))
            snprintf(owners + strlen(owners), sizeof owners - strlen(owners), "%s%s", *owners ? ", " : "", other->name);
    return err_set(err, QP_BAD_ARGUMENT, 0, "--%s is not an option of '%s' but of %s; did you mean --%s?", name,
                   c->name, owners, option_nearest(c, name));
}

static qp_status unknown(const command_row *c, const char *argument, qp_error *err) {
    const char *name = argument + strspn(argument, "-");
    const size_t bytes = strcspn(name, "=");
    char typed[64];
    snprintf(typed, sizeof typed, "%.*s", (int)(bytes < 63 ? bytes : 63), name);
    const bool is_long = argument[1] == '-';
    if (is_long && find_name(~0u, typed, strlen(typed))) return misplaced(c, typed, err);
    if (!is_long && typed[1] && find_letter(c->bit, *typed) && !find_name(c->bit, typed, strlen(typed)))
        return err_set(err, QP_BAD_ARGUMENT, 0, "unknown option '%.80s': a value is written apart, '-%c %.60s'",
                       argument, *typed, argument + 2);
    return err_set(err, QP_BAD_ARGUMENT, 0, "unknown option '%.80s'; did you mean --%s?", argument,
                   option_nearest(c, typed));
}

/* ---- the command line ---- */

typedef struct cursor {
    int argc, at;
    char **argv;
} cursor;

/* Reads one option, with its value out of the same argument (--x=V) or the next. */
static qp_status read_option(options *o, const command_row *c, cursor *in, qp_error *err) {
    const char *argument = in->argv[in->at++];
    const bool is_long = argument[1] == '-';
    const char *name = argument + 1 + is_long, *equals = strchr(name, '=');
    const size_t bytes = equals ? (size_t)(equals - name) : strlen(name);
    const option_row *row = is_long ? find_name(c->bit, name, bytes) : bytes == 1 ? find_letter(c->bit, *name) : NULL;
    if (!row) return unknown(c, argument, err);
    char shown[64];
    snprintf(shown, sizeof shown, "%.*s", (int)(bytes + 1 + is_long), argument);
    const source from = {row, shown};
    const char *value = equals ? equals + 1 : NULL;
    if (row->kind == OPTION_FLAG && value)
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s takes no value, found '%.80s'", shown, value);
    if (row->kind != OPTION_FLAG && !value) {
        if (in->at == in->argc) return err_set(err, QP_BAD_ARGUMENT, 0, "%s needs a value: %s", shown, row->value);
        value = in->argv[in->at++];
    }
    o->typed[place_of(row)] = true;
    o->given[place_of(row)] = true;
    return set_value(o, &from, value, err);
}

static qp_status read_word(options *o, const command_row *c, const char *word, qp_error *err) {
    if (!c->words)
        return err_set(err, QP_BAD_ARGUMENT, 0, "'%s' takes options only, found '%.80s'%s", c->name, word,
                       find_letter(c->bit, 'p') ? "; a text is given with -p" : "");
    if (o->word) return err_set(err, QP_BAD_ARGUMENT, 0, "'%.80s' after '%.80s' is too much", word, o->word);
    if (islower((unsigned char)*c->words) && !option_is_choice(c->words, word))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found '%.80s', allowed are %s", c->name, word, c->words);
    o->word = word;
    return QP_OK;
}

static qp_status read_arguments(options *o, const command_row *c, int argc, char **argv, qp_error *err) {
    cursor in = {argc, 0, argv};
    for (bool is_over = false; in.at < argc;) {
        const char *argument = argv[in.at];
        const bool is_option = !is_over && argument[0] == '-' && argument[1];
        if (is_option && !strcmp(argument, "--"))
            is_over = true, in.at++;
        else if (is_option)
            ERR_TRY(read_option(o, c, &in, err));
        else
            ERR_TRY(read_word(o, c, argv[in.at++], err));
    }
    return QP_OK;
}

/* ---- rivals ---- */

static bool are_rivals(const option_rivals *r, const command_row *c, const option_row *row) {
    return r->commands & c->bit && row->commands & c->bit && option_is_choice(r->names, row->name);
}

/* Was another option typed that excludes this one? */
static bool has_typed_rival(const options *o, const command_row *c, const option_row *row) {
    for (const option_rivals *r = option_rival_rows; r < option_rival_rows + option_rival_count; r++) {
        if (!are_rivals(r, c, row)) continue;
        for (const option_row *other = option_rows; other < option_rows + option_count; other++)
            if (other != row && are_rivals(r, c, other) && o->typed[place_of(other)]) return true;
    }
    return false;
}

static qp_status check_rivals(const options *o, const command_row *c, qp_error *err) {
    for (const option_rivals *r = option_rival_rows; r < option_rival_rows + option_rival_count; r++) {
        const option_row *first = NULL;
        for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
            if (!are_rivals(r, c, row) || !o->given[place_of(row)]) continue;
            if (first) return err_set(err, QP_BAD_ARGUMENT, 0, "--%s or --%s, not both", first->name, row->name);
            first = row;
        }
    }
    return QP_OK;
}

static qp_status read_environment(options *o, const command_row *c, qp_error *err) {
    for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
        char name[64];
        option_environment(name, sizeof name, row->name);
        const char *value = row->commands & c->bit && !o->given[place_of(row)] ? getenv(name) : NULL;
        if (!value || !*value || has_typed_rival(o, c, row)) continue;
        const source from = {row, name};
        ERR_TRY(set_value(o, &from, value, err));
        o->given[place_of(row)] = true;
    }
    return QP_OK;
}

static qp_status set_defaults(options *o, const command_row *c, qp_error *err) {
    for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
        const source from = {row, row->name};
        if (row->commands & c->bit && row->standard) ERR_TRY(set_value(o, &from, row->standard, err));
    }
    return QP_OK;
}

qp_status option_parse(options *out, const command_row *c, int argc, char **argv, qp_error *err) {
    memset(out, 0, sizeof *out);
    ERR_TRY(set_defaults(out, c, err));
    ERR_TRY(read_arguments(out, c, argc, argv, err));
    if (out->help) return QP_OK;
    ERR_TRY(read_environment(out, c, err));
    return check_rivals(out, c, err);
}

void options_free(options *o) {
    mem_free(o->lora.at);
    mem_free(o->stop.at);
    mem_free(o->ban.at);
    mem_free(o->ban_token.at);
    mem_free(o->logit_bias.at);
    o->lora = o->stop = o->ban = (option_texts){NULL, 0};
    o->ban_token = (option_ids){NULL, 0};
    o->logit_bias = (option_biases){NULL, 0};
}

/* ---- one value after the other ---- */

static void *copy_list(const void *at, size_t count, size_t size, bool *failed) {
    void *copy = count ? mem_copy(at, count, size) : NULL;
    *failed |= count && !copy;
    return copy;
}

qp_status options_copy(options *out, const options *from, qp_error *err) {
    bool failed = false;
    *out = *from;
    out->lora.at = copy_list(from->lora.at, from->lora.count, sizeof *from->lora.at, &failed);
    out->stop.at = copy_list(from->stop.at, from->stop.count, sizeof *from->stop.at, &failed);
    out->ban.at = copy_list(from->ban.at, from->ban.count, sizeof *from->ban.at, &failed);
    out->ban_token.at = copy_list(from->ban_token.at, from->ban_token.count, sizeof *from->ban_token.at, &failed);
    out->logit_bias.at = copy_list(from->logit_bias.at, from->logit_bias.count, sizeof *from->logit_bias.at, &failed);
    return failed ? err_no_memory(err, sizeof *out, "the settings") : QP_OK;
}

const option_row *option_find_own(const command_row *c, const char *name) {
    char dashed[64];
    if (snprintf(dashed, sizeof dashed, "%s", name) >= (int)sizeof dashed) return NULL;
    for (char *at = dashed; *at; at++)
        if (*at == '_') *at = '-';
    const option_row *row = find_name(c->bit, dashed, strlen(dashed));
    return row && is_own(row) ? row : NULL;
}

void option_unset(options *o, const option_row *row) {
    static const size_t sizes[] = {
        [OPTION_FLAG] = sizeof(bool),        [OPTION_INT] = sizeof(int64_t),
        [OPTION_REAL] = sizeof(double),      [OPTION_TEXT] = sizeof(char *),
        [OPTION_CHOICE] = sizeof(char *),    [OPTION_TEXTS] = sizeof(option_texts),
        [OPTION_INTS] = sizeof(option_ints), [OPTION_REALS] = sizeof(option_reals),
        [OPTION_IDS] = sizeof(option_ids),   [OPTION_BIASES] = sizeof(option_biases),
    };
    void *field = field_of(o, row);
    if (row->kind == OPTION_TEXTS) mem_free(((option_texts *)field)->at);
    if (row->kind == OPTION_IDS) mem_free(((option_ids *)field)->at);
    if (row->kind == OPTION_BIASES) mem_free(((option_biases *)field)->at);
    memset(field, 0, sizes[row->kind]);
    o->given[place_of(row)] = o->typed[place_of(row)] = false;
}

qp_status option_set(options *o, const option_row *row, const char *shown, const char *text, qp_error *err) {
    const source from = {row, shown};
    ERR_TRY(set_value(o, &from, text, err));
    o->given[place_of(row)] = true;
    for (const option_rivals *r = option_rival_rows; r < option_rival_rows + option_rival_count; r++)
        for (const option_row *other = option_rows; other < option_rows + option_count; other++)
            if (other != row && option_is_choice(r->names, row->name) && option_is_choice(r->names, other->name) &&
                r->commands & row->commands & other->commands)
                option_unset(o, other);
    return QP_OK;
}

/* Is there a mark for the row of this field? */
static bool is_marked(const options *o, const bool *marks, const command_row *c, const void *field) {
    const size_t offset = (size_t)((const char *)field - (const char *)o);
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (row->commands & c->bit && row->field == offset && marks[place_of(row)]) return true;
    return false;
}

bool option_given(const options *o, const command_row *c, const void *field) {
    return is_marked(o, o->given, c, field);
}

bool option_typed(const options *o, const command_row *c, const void *field) {
    return is_marked(o, o->typed, c, field);
}
