/* hf_nested.h — the text part of models that also see or hear: which family it is, and the numbers that its config
 * leaves out.
 *
 * transformers writes a nested config without what equals the defaults of its class: published LLaVA 1.5 files do not
 * say how wide their Llama is. Called by hfconfig.c. */
#ifndef FORMAT_HF_NESTED_H
#define FORMAT_HF_NESTED_H

#include "base/err.h"
#include <jansson.h>

/* Adds the missing numbers of a "text_config" whose "model_type" is known. */
qp_status hf_nested_fill(json_t *text, qp_error *err);
/* The family of the text part of `whole` ("LlavaForConditionalGeneration"); NULL where either is unknown. */
const char *hf_nested_family(const char *whole, const json_t *text);

#endif
