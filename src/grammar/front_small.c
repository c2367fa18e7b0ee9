/* front_small.c — the front ends of a few lines: a regular expression, a list of choices, a beginning. */
#include "fronts.h"
#include "base/json.h"
#include "base/mem.h"
#include "pattern.h"

qp_status regex_lower(ir *g, ir_sym *out, span source, const ir_options *options, qp_error *err) {
    rx language;
    ERR_TRY(pattern_parse(ir_pool(g), &language, source, NULL, err));
    *out = ir_terminal(g, language);
    return ir_status(g, err);
}

static qp_status read_choices(ir *g, ir_sym *out, const json_t *list, qp_error *err) {
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n == 0)
        return err_set(err, QP_BAD_FORMAT, 0, "choices: found %s, allowed is an array of strings, not empty",
                       json_is_array(list) ? "an empty array" : json_kind(list));
    span *words = mem_array(n, sizeof *words);
    if (!words) return err_no_memory(err, n * sizeof *words, "choices");
    qp_status status = QP_OK;
    for (size_t i = 0; i < n && status == QP_OK; i++) {
        const json_t *word = json_array_get(list, i);
        if (json_is_string(word))
            words[i] = (span){json_string_value(word), json_string_length(word)};
        else
            status = err_set(err, QP_BAD_FORMAT, 0, "choices[%zu]: found %s, allowed is a string", i, json_kind(word));
    }
    if (status == QP_OK) *out = ir_terminal(g, rx_words(ir_pool(g), words, n));
    mem_free(words);
    return status != QP_OK ? status : ir_status(g, err);
}

qp_status choices_lower(ir *g, ir_sym *out, span source, const ir_options *options, qp_error *err) {
    json_t *list;
    ERR_TRY(json_parse(&list, source.at, source.bytes, "choices", err));
    const qp_status status = read_choices(g, out, list, err);
    json_decref(list);
    return status;
}

/* Free is any text of whole characters. */
qp_status prefix_lower(ir *g, ir_sym *out, span source, const ir_options *options, qp_error *err) {
    rx_pool *p = ir_pool(g);
    *out = ir_terminal(g, rx_concat(p, rx_text(p, source), rx_utf8(p)));
    return ir_status(g, err);
}
