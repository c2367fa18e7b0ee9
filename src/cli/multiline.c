/* multiline.c — where a message ends: at its line, at a line without a backslash, or at the closing fence. */
#include "multiline.h"

static const span fence = {"\"\"\"", 3};

static span trimmed(span line) {
    while (line.bytes && strchr(" \t\r", line.at[line.bytes - 1])) line.bytes--;
    return line;
}

/* Takes the fence off the line's end; false if there is none. */
static bool take_end(span *line) {
    const span text = trimmed(*line);
    if (text.bytes < fence.bytes || memcmp(text.at + text.bytes - fence.bytes, fence.at, fence.bytes)) return false;
    line->bytes = text.bytes - fence.bytes;
    return true;
}

static bool end_fenced(multiline *m, span line) {
    strbuf_add(&m->text, line.at, line.bytes);
    if (!line.bytes && m->text.bytes && m->text.at[m->text.bytes - 1] == '\n') m->text.at[--m->text.bytes] = 0;
    m->is_open = false;
    return true;
}

static bool add_fenced(multiline *m, span line) {
    if (take_end(&line)) return end_fenced(m, line);
    strbuf_add(&m->text, line.at, line.bytes);
    strbuf_char(&m->text, '\n');
    return false;
}

static bool open_fence(multiline *m, span line) {
    line.at += fence.bytes;
    line.bytes -= fence.bytes;
    m->is_open = m->is_fenced = true;
    return trimmed(line).bytes ? add_fenced(m, line) : false;
}

bool multiline_add(multiline *m, const char *text, size_t bytes) {
    span line = {text, bytes};
    if (line.bytes && line.at[line.bytes - 1] == '\r') line.bytes--;
    if (m->is_open && m->is_fenced) return add_fenced(m, line);
    if (!m->is_open && span_starts(line, fence)) return open_fence(m, line);
    m->is_open = line.bytes && line.at[line.bytes - 1] == '\\';
    strbuf_add(&m->text, line.at, line.bytes - m->is_open);
    if (m->is_open) strbuf_char(&m->text, '\n');
    return !m->is_open;
}

void multiline_clear(multiline *m) {
    strbuf_clear(&m->text);
    m->is_open = m->is_fenced = false;
}

void multiline_free(multiline *m) {
    strbuf_free(&m->text);
    *m = (multiline){.is_open = false};
}
