/* text_prompt.c — the `prompt` of a completion: a text, texts, ids or arrays of ids, each a prompt of its own.
 *
 * Called by generate.c. Texts get the bos token as the tokenizer says, unless the request decides; ids are taken as
 * they are. A text that begins with the bos token itself does not get a second one. */
#include "base/mem.h"
#include "fim.h"
#include "generate.h"
#include <stdio.h>

static unsigned flags_of(const ask *a) {
    return (a->gen.add_bos_token == 0 ? QP_TOKENIZE_NO_SPECIAL : 0) |
           (a->f.parse_special ? 0 : QP_TOKENIZE_PLAIN_SPECIAL);
}

static void drop_second_bos(generate_prompt *p, int32_t bos) {
    if (p->n_ids < 2 || p->ids[0] != bos || p->ids[1] != bos) return;
    memmove(p->ids, p->ids + 1, --p->n_ids * sizeof *p->ids);
}

/* add_bos_token: true where the tokenizer would not. */
static bool force_bos(generate_prompt *p, int32_t bos, refusal *why) {
    if (bos < 0 || (p->n_ids && p->ids[0] == bos)) return true;
    int32_t *more = mem_array(p->n_ids + 1, sizeof *more);
    if (!more) return refuse_memory(why, "prompt");
    more[0] = bos;
    if (p->n_ids) memcpy(more + 1, p->ids, p->n_ids * sizeof *more);
    qp_free(p->ids);
    p->ids = more;
    p->n_ids++;
    return true;
}

/* truncate_prompt_tokens: what is old goes, but for the bos token. */
static void truncate(generate_prompt *p, int64_t most, int32_t bos) {
    if (most <= 0 || p->n_ids <= (size_t)most) return;
    const size_t kept_first = p->ids[0] == bos && most > 1, n = (size_t)most - kept_first;
    memmove(p->ids + kept_first, p->ids + p->n_ids - n, n * sizeof *p->ids);
    p->n_ids = (size_t)most;
}

static bool add_text(generation *g, const json_t *value, const char *name, refusal *why) {
    const ask *a = &g->ask;
    generate_prompt *p = &g->prompts[g->n_prompts];
    const span text = {json_string_value(value), json_string_length(value)};
    qp_error err = {0};
    g->n_prompts++;
    if (a->f.suffix.at) return fim_make(&p->ids, &p->n_ids, g->model->tokenizer, text, a->f.suffix, "suffix", why);
    const qp_status status =
        qp_tokenize(g->model->tokenizer, text.at, text.bytes, flags_of(a), &p->ids, &p->n_ids, &err);
    if (status != QP_OK) return refuse_status(why, status, name, &err);
    drop_second_bos(p, g->model->info.bos);
    if (a->gen.add_bos_token == 1 && !force_bos(p, g->model->info.bos, why)) return false;
    if (!p->n_ids) return refuse(why, FAULT_BAD_REQUEST, name, "%s: the text makes no token", name);
    truncate(p, a->f.truncate, g->model->info.bos);
    if (a->f.echo) p->echo = text;
    return true;
}

static bool add_ids(generation *g, const json_t *list, const char *name, refusal *why) {
    generate_prompt *p = &g->prompts[g->n_prompts];
    field_ids ids;
    qp_error err = {0};
    if (!field_take_ids(&ids, list, name, 0, g->model->info.vocabulary - 1, &g->ask.memory, why)) return false;
    if (!ids.count) return refuse(why, FAULT_BAD_REQUEST, name, "%s: the array is empty", name);
    if (g->ask.f.suffix.at)
        return refuse(why, FAULT_BAD_REQUEST, "suffix", "suffix: it needs a prompt that is a text, not token ids");
    p->ids = mem_copy(ids.at, ids.count, sizeof *ids.at);
    p->n_ids = ids.count;
    g->n_prompts++;
    if (!p->ids) return refuse_memory(why, name);
    if (!g->ask.f.echo) return true;
    char *text;
    size_t bytes;
    const qp_status status = qp_detokenize(g->model->tokenizer, p->ids, p->n_ids, 0, &text, &bytes, &err);
    if (status != QP_OK) return refuse_status(why, status, name, &err);
    p->echo = (span){arena_text(&g->ask.memory, text, bytes), bytes};
    qp_free(text);
    return p->echo.at || refuse_memory(why, name);
}

/* What kind of thing the array holds is what its first item is. */
static bool add_each(generation *g, const json_t *list, refusal *why) {
    const bool has_texts = json_is_string(json_array_get(list, 0));
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        char place[40];
        snprintf(place, sizeof place, "prompt[%zu]", i);
        if (has_texts ? !json_is_string(item) : !json_is_array(item))
            return field_wrong_kind(why, place, item, has_texts ? "a string, like the first one" : "an array of ids");
        if (has_texts ? !add_text(g, item, place, why) : !add_ids(g, item, place, why)) return false;
    }
    return true;
}

bool text_prompt_make(generation *g, refusal *why) {
    const json_t *prompt = g->ask.f.prompt;
    const size_t n = json_array_size(prompt);
    if (!prompt) return refuse(why, FAULT_BAD_REQUEST, "prompt", "prompt: missing");
    const bool is_many = n && !json_is_number(json_array_get(prompt, 0));
    if (!generate_reserve(g, is_many ? n : 1, why)) return false;
    if (json_is_string(prompt)) return add_text(g, prompt, "prompt", why);
    if (!json_is_array(prompt))
        return field_wrong_kind(why, "prompt", prompt, "a string, an array of strings or an array of token ids");
    return is_many ? add_each(g, prompt, why) : add_ids(g, prompt, "prompt", why);
}
