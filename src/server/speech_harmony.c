/* speech_harmony.c — answers that are a row of messages on channels: <|channel|>analysis<|message|>...<|end|>.
 *
 * Called by speech.c from the beginning of the answer on. The header says who is spoken to: a function, the user, or
 * nobody (analysis). The tokens that end the whole answer are not in its text, so a message may end without a tag. */
#include "speech_state.h"

enum { LONGEST_HEADER = 400 };

static const char message[] = "<|message|>";
static const char *const message_ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>"};

/* The function that the header names, or nothing. */
static span recipient(span header) {
    const char *at = memmem(header.at, header.bytes, " to=", 4);
    if (!at) return (span){0};
    at += 4;
    const size_t left = header.bytes - (size_t)(at - header.at);
    size_t n = 0;
    while (n < left && at[n] != ' ' && at[n] != '<') n++;
    const span name = {at, n};
    return span_is(name, "user") || span_is(name, "assistant") ? (span){0} : name;
}

static bool is_header(const speech *s) {
    const span held = {s->held.at, s->held.bytes};
    static const char *const begins[] = {"<|channel|>", "<|start|>", " to=", "assistant", "<|message|>"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        const size_t bytes = strlen(begins[i]), n = bytes < held.bytes ? bytes : held.bytes;
        if (!memcmp(held.at, begins[i], n)) return true;
    }
    return false;
}

static bool read_header(speech *s) {
    size_t safe;
    if (!s->held.bytes) return false;
    const size_t at = speech_find(s, message, &safe);
    if (at == SIZE_MAX) {
        if (is_header(s) && s->held.bytes < LONGEST_HEADER && !s->is_last) return false;
        s->channel = SAY_TEXT; /* an answer that keeps to no form */
        s->mode = MODE_MESSAGE;
        return true;
    }
    const span header = {s->held.at, at}, name = recipient(header);
    const bool is_analysis = memmem(header.at, header.bytes, "analysis", 8) != NULL;
    s->channel = name.bytes ? SAY_ARGUMENTS : is_analysis ? SAY_THOUGHT : SAY_TEXT;
    if (name.bytes) {
        strbuf_clear(&s->raw);
        speech_open_call(s);
        speech_name_call(s, name.at, name.bytes);
    }
    speech_take(s, at + sizeof message - 1);
    s->mode = MODE_MESSAGE;
    return true;
}

static void tell(speech *s, size_t n) {
    if (s->channel != SAY_ARGUMENTS) return speech_tell(s, s->channel, n);
    speech_add_arguments(s, s->held.at, n);
    speech_take(s, n);
}

/* The earliest tag or stop text; its kind in *which: 0 .. 3 a tag, from 4 on a stop text, -1 none. */
static size_t find_end(const speech *s, int *which) {
    size_t first = SIZE_MAX, hold = s->held.bytes;
    *which = -1;
    const int n_stops = s->channel == SAY_TEXT ? (int)s->setup.n_stops : 0;
    for (int i = 0; i < 4 + n_stops; i++) {
        size_t safe;
        const size_t at = speech_find(s, i < 4 ? message_ends[i] : s->setup.stops[i - 4], &safe);
        if (at < first) first = at, *which = i;
        if (safe < hold) hold = safe;
    }
    return first == SIZE_MAX || first > hold ? (*which = -1, hold) : first;
}

/* Well-formed arguments end where their JSON does: a tag in one of its texts is none. */
static bool read_arguments(speech *s) {
    const size_t n = json_walk_feed(&s->walk, s->held.at, s->held.bytes);
    if (n) tell(s, n);
    return n > 0;
}

static bool read_message(speech *s) {
    int which;
    if (s->channel == SAY_ARGUMENTS && s->setup.is_exact && !s->walk.is_done) return read_arguments(s);
    const size_t at = find_end(s, &which);
    if (at) tell(s, at);
    if (which < 0) return false;
    if (which >= 4) return s->stop = which - 4, s->mode = MODE_OVER, true;
    if (s->channel == SAY_ARGUMENTS) speech_end_call(s);
    if (s->mode == MODE_OVER) return true;
    speech_take(s, strlen(message_ends[which]));
    if (s->channel == SAY_THOUGHT) s->thought_end = s->base;
    s->mode = MODE_HEADER;
    return true;
}

bool speech_read_harmony(speech *s) { return s->mode == MODE_HEADER ? read_header(s) : read_message(s); }
