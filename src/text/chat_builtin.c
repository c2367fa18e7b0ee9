/* chat_builtin.c — prompt formats of our own, for models that come without a template: a row each.
 *
 * They follow what the models' makers describe. `bos_token` and `eos_token` come with the input ("tokens"); where they
 * are missing nothing is written for them. A system message stands where the format has a place for one, else before
 * the first user message. */
#include "chat.h"
#include "base/str.h"

/* The system message, taken off the front, as `system`; the rest as `turns`. */
#define SPLIT_SYSTEM                                                                                                   \
    "{%- if messages and messages[0].role in ['system', 'developer'] %}"                                               \
    "{%- set system = messages[0].content | trim %}{%- set turns = messages[1:] %}"                                    \
    "{%- else %}{%- set system = '' %}{%- set turns = messages %}{%- endif %}"

enum { STOPS_MAX = 3 };

static const struct {
    const char *name, *source;
    const char *stops[STOPS_MAX]; /* where an answer ends, beside the end tokens */
} formats[] = {
    {"raw", "{%- for m in messages %}{{- m.content }}{%- endfor %}", {NULL}},
    {"script",
     SPLIT_SYSTEM "{{- bos_token }}{%- if system %}{{- system + '\\n\\n' }}{%- endif %}{%- for m in turns %}"
                  "{{- ('Assistant' if m.role == 'assistant' else 'User') + ': ' + m.content | trim + '\\n' }}"
                  "{%- endfor %}{%- if add_generation_prompt %}{{- 'Assistant:' }}{%- endif %}",
     {"\nUser:", "\nAssistant:"}},
    {"chatml",
     "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}"
     "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}",
     {"<|im_end|>", "<|im_start|>"}},
    {"llama2",
     SPLIT_SYSTEM "{%- for m in turns %}"
                  "{%- if m.role == 'user' %}{{- bos_token ~ '[INST] ' }}"
                  "{%- if loop.first and system %}{{- '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' }}{%- endif %}"
                  "{{- m.content | trim + ' [/INST]' }}"
                  "{%- else %}{{- ' ' ~ m.content | trim ~ ' ' ~ eos_token }}{%- endif %}{%- endfor %}",
     {"[INST]"}},
    {"llama3",
     "{{- bos_token }}{%- for m in messages %}"
     "{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}{%- endfor %}"
     "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}",
     {"<|eot_id|>", "<|start_header_id|>"}},
    {"mistral",
     SPLIT_SYSTEM "{{- bos_token }}{%- for m in turns %}"
                  "{%- if m.role == 'user' %}{{- '[INST] ' + (system + '\\n\\n' if loop.first and system "
                  "else '') + m.content + ' [/INST]' }}"
                  "{%- else %}{{- ' ' ~ m.content ~ eos_token }}{%- endif %}{%- endfor %}",
     {"[INST]"}},
    {"gemma",
     SPLIT_SYSTEM "{{- bos_token }}{%- for m in turns %}"
                  "{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}"
                  "{%- if loop.first and system %}{{- system + '\\n\\n' }}{%- endif %}"
                  "{{- m.content | trim + '<end_of_turn>\\n' }}{%- endfor %}"
                  "{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}",
     {"<end_of_turn>", "<start_of_turn>"}},
    {"phi3",
     "{%- for m in messages %}{{- '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{%- endfor %}"
     "{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}",
     {"<|end|>", "<|user|>", "<|endoftext|>"}},
    {"zephyr",
     "{%- for m in messages %}{{- '<|' ~ m.role ~ '|>\\n' ~ m.content ~ eos_token ~ '\\n' }}{%- endfor %}"
     "{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}",
     {"<|user|>", "<|system|>"}},
    {"deepseek",
     SPLIT_SYSTEM "{{- bos_token ~ system }}{%- for m in turns %}"
                  "{%- if m.role == 'user' %}{{- '<\xef\xbd\x9cUser\xef\xbd\x9c>' + m.content }}"
                  "{%- else %}{{- '<\xef\xbd\x9c"
                  "Assistant\xef\xbd\x9c>' ~ m.content ~ eos_token }}{%- endif %}{%- endfor %}"
                  "{%- if add_generation_prompt %}{{- '<\xef\xbd\x9c"
                  "Assistant\xef\xbd\x9c>' }}{%- endif %}",
     {"<\xef\xbd\x9cUser\xef\xbd\x9c>"}},
    {"command-r",
     "{{- bos_token }}{%- for m in messages %}"
     "{{- '<|START_OF_TURN_TOKEN|><|' + ('CHATBOT' if m.role == 'assistant' else m.role | upper) + '_TOKEN|>' + "
     "m.content | trim + '<|END_OF_TURN_TOKEN|>' }}"
     "{%- endfor %}{%- if add_generation_prompt %}{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif %}",
     {"<|END_OF_TURN_TOKEN|>"}},
    {"vicuna",
     SPLIT_SYSTEM "{{- bos_token }}{%- if system %}{{- system + '\\n\\n' }}{%- endif %}{%- for m in turns %}"
                  "{%- if m.role == 'user' %}{{- 'USER: ' + m.content + '\\n' }}"
                  "{%- else %}{{- 'ASSISTANT: ' ~ m.content ~ eos_token ~ '\\n' }}{%- endif %}{%- endfor %}"
                  "{%- if add_generation_prompt %}{{- 'ASSISTANT:' }}{%- endif %}",
     {"\nUSER:"}},
    {"alpaca",
     SPLIT_SYSTEM "{{- bos_token }}{%- if system %}{{- system + '\\n\\n' }}{%- endif %}{%- for m in turns %}"
                  "{%- if m.role == 'user' %}{{- '### Instruction:\\n' + m.content + '\\n\\n' }}"
                  "{%- else %}{{- '### Response:\\n' ~ m.content ~ eos_token ~ '\\n\\n' }}{%- endif %}{%- endfor %}"
                  "{%- if add_generation_prompt %}{{- '### Response:\\n' }}{%- endif %}",
     {"\n### Instruction:"}},
};

enum { N_FORMATS = sizeof formats / sizeof *formats };

const char *chat_builtin_stop(const char *name, int index) {
    for (int i = 0; i < N_FORMATS; i++)
        if (!strcmp(name, formats[i].name)) return index >= 0 && index < STOPS_MAX ? formats[i].stops[index] : NULL;
    return NULL;
}

const char *chat_builtin_name(int index) { return index >= 0 && index < N_FORMATS ? formats[index].name : NULL; }

qp_status chat_builtin(chat **out, const char *name, qp_error *err) {
    strbuf names = {0};
    *out = NULL;
    for (int i = 0; i < N_FORMATS; i++) {
        if (!strcmp(name, formats[i].name)) return strbuf_free(&names), chat_new(out, span_of(formats[i].source), err);
        strbuf_format(&names, "%s%s", i ? ", " : "", formats[i].name);
    }
    const qp_status status = err_set(err, QP_BAD_ARGUMENT, 0, "no prompt format named \"%.60s\"; there are: %s", name,
                                     names.at ? names.at : "");
    strbuf_free(&names);
    return status;
}
