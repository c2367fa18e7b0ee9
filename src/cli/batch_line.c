/* batch_line.c — one line of a batch becomes a job, and the job's answer a line.
 *
 * A line's options go through the same rows as those of the command line, so that names, checks and refusals are the
 * same. Texts are borrowed from the line's document, which lives until the job has copied them. */
#include "batch.h"
#include "constraint.h"
#include "option_json.h"
#include "prompt.h"
#include "settings.h"
#include "base/mem.h"

static const char *const other_names[][2] = {
    {"n", "new_tokens"}, {"max_new_tokens", "new_tokens"}, {"max_tokens", "new_tokens"}};

static bool is_prompt(const char *key) { return option_is_choice("id|prompt|messages|ids", key); }

/* ---- options ---- */

static qp_status set_keys(options *o, const session *s, const json_t *document, qp_error *err) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)document, key, value) {
        if (is_prompt(key)) continue;
        const char *name = key;
        for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
            if (!strcmp(key, other_names[i][0])) name = other_names[i][1];
        ERR_TRY(option_set_json(o, s->command, name, key, value, err));
    }
    return settings_check(o, err);
}

/* ---- the prompt ---- */

static qp_status take_ids(input_ids *out, const batch_maker *m, const json_t *list, qp_error *err) {
    const json_t *item;
    size_t i;
    out->at = mem_array(json_array_size(list) + 1, sizeof *out->at);
    if (!out->at) return err_no_memory(err, json_array_size(list) * sizeof *out->at, "the ids");
    out->capacity = json_array_size(list) + 1;
    json_array_foreach(list, i, item) {
        const json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id >= m->info.vocabulary)
            return err_set(err, QP_BAD_ARGUMENT, i, "\"ids\", place %zu: expected an id from 0 to %d", i,
                           m->info.vocabulary - 1);
        out->at[out->count++] = (int32_t)id;
    }
    return out->count ? QP_OK : err_set(err, QP_BAD_ARGUMENT, 0, "\"ids\": no ids in it, at least one is needed");
}

static qp_status take_messages(input_ids *out, const batch_maker *m, const char *messages, size_t bytes,
                               qp_error *err) {
    if (!m->chat) return err_set(err, QP_UNSUPPORTED, 0, "the model has no chat template");
    strbuf text = {0};
    qp_status status = prompt_render(&text, m->chat, messages, bytes, err);
    if (status == QP_OK)
        status = prompt_tokenize(out, m->model, text.at ? text.at : "", text.bytes, QP_TOKENIZE_NO_SPECIAL, err);
    strbuf_free(&text);
    return status;
}

/* With --chat the text is a user's message. */
static qp_status take_text(input_ids *out, const batch_maker *m, const json_t *prompt, qp_error *err) {
    const options *o = m->s->o;
    const char *text = json_string_value(prompt);
    const size_t bytes = json_string_length(prompt);
    const unsigned flags =
        (o->no_special ? QP_TOKENIZE_NO_SPECIAL : 0) | (o->no_parse_special ? QP_TOKENIZE_PLAIN_SPECIAL : 0);
    if (!o->chat) return prompt_tokenize(out, m->model, text, bytes, flags, err);
    strbuf message = {0};
    prompt_add_message(&message, text, bytes);
    qp_status status = strbuf_status(&message, err, "the message");
    if (status == QP_OK) status = take_messages(out, m, message.at, message.bytes, err);
    strbuf_free(&message);
    return status;
}

static qp_status take_prompt(input_ids *out, const batch_maker *m, const json_t *document, qp_error *err) {
    const json_t *prompt = json_object_get(document, "prompt"), *messages = json_object_get(document, "messages"),
                 *ids = json_object_get(document, "ids");
    if (!!prompt + !!messages + !!ids != 1)
        return err_set(err, QP_BAD_ARGUMENT, 0,
                       "a line needs \"prompt\", \"messages\" or \"ids\", exactly one of them");
    if (prompt && json_is_string(prompt)) return take_text(out, m, prompt, err);
    if (ids && json_is_array(ids)) return take_ids(out, m, ids, err);
    if (!messages || !json_is_array(messages))
        return err_set(err, QP_BAD_ARGUMENT, 0, "\"%s\": found %s, expected %s",
                       prompt ? "prompt"
                       : ids  ? "ids"
                              : "messages",
                       json_kind(prompt ? prompt
                                 : ids  ? ids
                                        : messages),
                       prompt ? "a string" : "an array");
    char *text = json_dumps(messages, JSON_COMPACT);
    if (!text) return err_no_memory(err, 0, "the messages");
    const qp_status status = take_messages(out, m, text, strlen(text), err);
    free(text);
    return status;
}

/* ---- the job ---- */

qp_status batch_parse(json_t **out, batch_item *item, const batch_maker *m, const char *line, size_t bytes,
                      qp_error *err) {
    char where[320];
    json_t *document;
    snprintf(where, sizeof where, "%.280s, line %llu", m->path, (unsigned long long)item->index + 1);
    ERR_TRY(json_parse(&document, line, bytes, where, err));
    const json_t *id = json_object_get(document, "id");
    qp_status status = QP_OK;
    if (!json_is_object(document))
        status = err_set(err, QP_BAD_FORMAT, 0, "%s: %s, expected an object", where, json_kind(document));
    else if (id && !json_is_string(id) && !json_is_integer(id) && !json_is_null(id))
        status = err_set(err, QP_BAD_FORMAT, 0, "%s: \"id\" is %s, expected a string or a whole number", where,
                         json_kind(id));
    else if (id && !json_is_null(id)) {
        char *text = json_dumps(id, JSON_ENCODE_ANY);
        item->id = text ? mem_copy_text(text, strlen(text)) : NULL;
        free(text);
        if (!item->id) status = err_no_memory(err, 0, where);
    }
    if (status == QP_OK)
        *out = document;
    else
        json_decref(document);
    return status;
}

qp_status batch_submit(batch_item *item, const batch_maker *m, const json_t *document, qp_error *err) {
    const session *s = m->s;
    options own;
    input_ids prompt = {NULL, 0, 0};
    qp_status status = options_copy(&own, s->o, err);
    if (status == QP_OK) status = set_keys(&own, s, document, err);
    if (status == QP_OK) status = take_prompt(&prompt, m, document, err);
    if (status == QP_OK) {
        const bool has_seed = option_given(&own, s->command, &own.seed);
        qp_job_options wanted;
        settings_fill(&wanted, &own, s->command, &m->info, has_seed ? (uint64_t)own.seed : m->seed + item->index);
        wanted.ids = prompt.at;
        wanted.n_ids = prompt.count;
        wanted.adapters = m->adapters.uses;
        wanted.n_adapters = m->adapters.count;
        wanted.watch = m->watch;
        wanted.user = item;
        constraint_list constraints;
        status =
            constraint_open(&constraints, &own, qp_model_peek_tokenizer(m->model), own.lenient ? stderr : NULL, err);
        if (status == QP_OK) status = constraint_filters(&constraints, &wanted, err);
        if (status == QP_OK) status = qp_job_new(&item->job, m->generator, &wanted, err);
        constraint_close(&constraints);
        item->wants_logprobs = wanted.want_logprobs;
    }
    input_free_ids(&prompt);
    options_free(&own);
    return status;
}

static void begin_result(batch_item *item) {
    strbuf_clear(&item->result);
    strbuf_format(&item->result, "{\"id\": %s, \"index\": %llu, ", item->id ? item->id : "null",
                  (unsigned long long)item->index);
}

void batch_finish(batch_item *item) {
    begin_result(item);
    answer_add_content(&item->result, &item->answer, item->wants_logprobs);
    strbuf_text(&item->result, ", ");
    answer_add_figures(&item->result, &item->answer.end.stats);
    strbuf_text(&item->result, "}\n");
}

void batch_fail(batch_item *item, const qp_error *why) {
    begin_result(item);
    strbuf_text(&item->result, "\"error\": ");
    strbuf_json(&item->result, why->text, strlen(why->text));
    strbuf_text(&item->result, "}\n");
}

void batch_free_item(batch_item *item) {
    qp_job_free(item->job);
    answer_free(&item->answer);
    strbuf_free(&item->result);
    mem_free(item->id);
    mem_free(item);
}
