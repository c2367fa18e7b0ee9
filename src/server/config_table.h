/* config_table.h — every setting of the server: one row makes the configuration key, the option of `quipu serve`, the
 * environment name, the help and the check.
 *
 * X(block, key, option, letter, kind, lowest, highest, choices, standard, value, help). The key is the field's name in
 * struct config; the option is the key with dashes, or a shorter name where other commands have one. */
#ifndef SERVER_CONFIG_TABLE_H
#define SERVER_CONFIG_TABLE_H

#define CONFIG_MANY 1073741824.0

/* clang-format off */
#define CONFIG_ROWS(X)                                                                                                 \
    X(NETWORK, host, "host", 0, TEXT, 0, 0, NULL, "127.0.0.1", "ADDRESS", "address to listen on")                      \
    X(NETWORK, port, "port", 0, INT, 0, 65535, NULL, "5000", "N", "port to listen on; 0: any that is free")            \
    X(NETWORK, disable_auth, "disable-auth", 0, BOOL, 0, 0, NULL, "false", NULL,                                       \
      "no keys: every caller may do everything (loopback only, see allow_unauthenticated_network)")                    \
    X(NETWORK, allow_unauthenticated_network, "allow-unauthenticated-network", 0, BOOL, 0, 0, NULL, "false", NULL,     \
      "disable_auth may listen on addresses that others can reach")                                                    \
    X(NETWORK, keys_file, "keys-file", 0, TEXT, 0, 0, NULL, "api_tokens.yml", "FILE",                                  \
      "api_key and admin_key; made when it is missing, read again when it changes")                                    \
    X(NETWORK, cors_origins, "cors-origins", 0, LIST, 0, 0, NULL, NULL, "URL,URL..",                                   \
      "origins whose web pages may call; * is any (default: * with keys, localhost's without)")                        \
    X(NETWORK, allowed_hosts, "allowed-hosts", 0, LIST, 0, 0, NULL, NULL, "NAME,NAME..",                               \
      "names that a Host header may have, besides localhost, when keys are off")                                       \
    X(NETWORK, max_connections, "max-connections", 0, INT, 1, 1000000, NULL, "1024", "N",                              \
      "connections at the same time; more are answered 503")                                                           \
    X(NETWORK, max_connections_per_address, "max-connections-per-address", 0, INT, 0, 1000000, NULL, "0", "N",         \
      "of one client address; 0: no limit")                                                                            \
    X(NETWORK, max_body_bytes, "max-body-bytes", 0, INT, 1024, CONFIG_MANY, NULL, "33554432", "N",                     \
      "largest request body")                                                                                          \
    X(NETWORK, max_header_bytes, "max-header-bytes", 0, INT, 4096, 1048576, NULL, "32768", "N",                        \
      "largest header section, with 64 bytes for each header; each used connection keeps so much memory")              \
    X(NETWORK, keep_alive_connections, "keep-alive-connections", 0, INT, 0, 1000000, NULL, "3500", "N",                \
      "while more are open, each connection ends with its answer")                                                     \
    X(NETWORK, header_timeout, "header-timeout", 0, REAL, 0.05, 3600, NULL, "10", "S",                                 \
      "seconds for a header section to arrive")                                                                        \
    X(NETWORK, body_timeout, "body-timeout", 0, REAL, 0.05, 3600, NULL, "30", "S",                                     \
      "seconds without a byte of the body")                                                                            \
    X(NETWORK, keep_alive_timeout, "keep-alive-timeout", 0, REAL, 0.05, 86400, NULL, "75", "S",                        \
      "seconds that an idle connection is kept")                                                                       \
    X(NETWORK, write_stall_timeout, "write-stall-timeout", 0, REAL, 0.05, 86400, NULL, "60", "S",                      \
      "seconds without progress of a reader before its job is cancelled")                                              \
    X(NETWORK, half_close, "half-close", 0, CHOICE, 0, 0, "cancel|ignore", "cancel", "cancel|ignore",                  \
      "a client that closes its sending side has gone, or waits for the answer")                                       \
    X(NETWORK, sse_ping_interval, "sse-ping-interval", 0, REAL, 0, 3600, NULL, "5", "S",                               \
      "seconds of silence after which a stream gets a comment; 0: never")                                              \
    X(NETWORK, workers, "workers", 0, INT, 1, 64, NULL, "2", "N", "threads that read requests and make jobs of them")  \
                                                                                                                       \
    X(LOGGING, log_format, "log-format", 0, CHOICE, 0, 0, "text|json", "text", "text|json", "of the log on stderr")    \
    X(LOGGING, log_level, "log-level", 0, CHOICE, 0, 0, "error|warn|info|debug", "info", "error|warn|info|debug",      \
      "least important lines that are shown")                                                                          \
    X(LOGGING, log_prompt, "log-prompt", 0, BOOL, 0, 0, NULL, "false", NULL, "prompts are written to the log")         \
    X(LOGGING, metrics_compat, "metrics-compat", 0, LIST, 0, 0, "vllm|llamacpp", "vllm", "NAME,NAME..",                \
      "whose metric names to give beside ours: vllm, llamacpp")                                                        \
    X(LOGGING, metrics_auth, "metrics-auth", 0, BOOL, 0, 0, NULL, "false", NULL, "/metrics needs an api key")          \
                                                                                                                       \
    X(MODEL, model, "model", 'm', TEXT, 0, 0, NULL, NULL, "PATH",                                                      \
      "folder of the model to load at start (default: model_name, else the demo model that came with quipu)")          \
    X(MODEL, model_dir, "model-dir", 0, TEXT, 0, 0, NULL, "models", "DIR",                                             \
      "folder of models that /v1/model/load knows")                                                                    \
    X(MODEL, model_name, "model-name", 0, TEXT, 0, 0, NULL, NULL, "NAME", "model of model_dir to load at start")       \
    X(MODEL, no_model, "no-model", 0, BOOL, 0, 0, NULL, "false", NULL, "start without a model")                        \
    X(MODEL, model_alias, "model-alias", 0, LIST, 0, 0, NULL, NULL, "NAME,NAME..",                                     \
      "further names of the loaded model")                                                                             \
    X(MODEL, strict_model, "strict-model", 0, BOOL, 0, 0, NULL, "false", NULL,                                         \
      "a request that names another model is refused instead of answered by the loaded one")                           \
    X(MODEL, use_dummy_models, "use-dummy-models", 0, BOOL, 0, 0, NULL, "false", NULL,                                 \
      "list dummy_model_names too, for clients that insist")                                                           \
    X(MODEL, dummy_model_names, "dummy-model-names", 0, LIST, 0, 0, NULL, "gpt-3.5-turbo", "NAME,NAME..",              \
      "names that any model answers to")                                                                               \
    X(MODEL, device, "device", 0, TEXT, 0, 0, NULL, "auto", "auto|cpu|cuda[:N]",                                       \
      "where the model runs (auto: a GPU if it can be used)")                                                          \
    X(MODEL, split, "split", 0, TEXT, 0, 0, NULL, NULL, "auto|GIB,GIB..",                                              \
      "cut the model among several GPUs: as much as fits, or so many GiB (or layers, 16L,16L) of each")                \
    X(MODEL, cpu_level, "cpu", 0, CHOICE, 0, 0,                                                                        \
      "ref|avx2|avxvnni|avx512|avx512vnni|avx512bf16|amx|amxint8|neon|dotprod|i8mm", NULL, "LEVEL",                    \
      "instructions to use (default: the best that the machine has)")                                                  \
    X(MODEL, threads, "threads", 0, INT, 1, 1024, NULL, NULL, "N",                                                     \
      "CPU threads (default: the physical cores that the process may use)")                                            \
    X(MODEL, pin_threads, "pin-threads", 0, BOOL, 0, 0, NULL, "false", NULL, "bind each thread to a core")             \
    X(MODEL, precision, "precision", 0, CHOICE, 0, 0, "exact|fast", "fast", "exact|fast",                              \
      "exact: float32 activations and sums; fast: activations may be rounded to 16 bits")                              \
    X(MODEL, pack_cache, "pack-cache", 0, TEXT, 0, 0, NULL, NULL, "FOLDER|model",                                      \
      "keep weights as the CPU lays them in this folder, or beside the model, and map them at the next start")         \
    X(MODEL, cache_mode, "cache", 0, CHOICE, 0, 0, "fp16|fp32|q8|q6|q4|FP16|FP32|Q8|Q6|Q4", NULL, "FORMAT",            \
      "format of the cache: fp16, fp32, q8, q6, q4 (default: fp32 with precision exact, else fp16)")                   \
    X(MODEL, cache_size, "context", 0, INT, 256, CONFIG_MANY, NULL, NULL, "N",                                         \
      "tokens of cache for all jobs together (default: four times the trained context, as memory allows)")             \
    X(MODEL, max_seq_len, "max-seq-len", 0, INT, 16, CONFIG_MANY, NULL, NULL, "N",                                     \
      "longest prompt with its answer (default: the trained context)")                                                 \
    X(MODEL, max_batch_size, "max-batch-size", 0, INT, 1, 4096, NULL, "256", "N", "jobs that run at the same time")    \
    X(MODEL, chunk_size, "chunk-size", 0, INT, 16, 65536, NULL, "512", "N",                                            \
      "most prompt tokens in one step; above 512 means 512")                                                           \
    X(MODEL, rope_scale, "rope-scale", 0, REAL, 1e-3, 1e6, NULL, NULL, "N",                                            \
      "linear scaling of positions by this factor instead of the model's own")                                         \
    X(MODEL, rope_alpha, "rope-alpha", 0, REAL, 1e-3, 1e6, NULL, NULL, "N", "NTK-aware change of the rotary base")     \
    X(MODEL, rope_yarn, "rope-yarn", 0, REAL, 1, 1e6, NULL, NULL, "N", "YaRN by this factor over the trained context") \
    X(MODEL, prompt_template, "prompt-template", 0, TEXT, 0, 0, NULL, NULL, "NAME",                                    \
      "chat template of template_dir instead of the model's own")                                                      \
    X(MODEL, embedding_pooling, "embedding-pooling", 0, CHOICE, 0, 0, "auto|mean|last", "auto", "auto|mean|last",      \
      "what of a text makes its embedding: the mean of all tokens or the last one; auto: as the model's folder says")  \
    X(MODEL, template_dir, "template-dir", 0, TEXT, 0, 0, NULL, "templates", "DIR", "folder of NAME.jinja files")      \
                                                                                                                       \
    X(MODEL, inline_model_loading, "inline-model-loading", 0, BOOL, 0, 0, NULL, "false", NULL,                         \
      "a request that names another model of model_dir loads it (admin key) and waits")                                \
    X(MODEL, inline_loading_for_all, "inline-loading-for-all", 0, BOOL, 0, 0, NULL, "false", NULL,                     \
      "inline_model_loading for api keys, too")                                                                        \
    X(MODEL, use_as_default, "use-as-default", 0, LIST, 0, 0, NULL, NULL, "KEY,KEY..",                                 \
      "settings of the block model that later loads use, too, where neither request nor model folder has them")        \
    X(LORA, lora_dir, "lora-dir", 0, TEXT, 0, 0, NULL, "loras", "DIR", "folder of adapters that /v1/lora/load knows")  \
    X(LORA, loras, "loras", 0, LIST, 0, 0, NULL, NULL, "NAME[:SCALE],..",                                              \
      "adapters of lora_dir to load with the model at start")                                                          \
                                                                                                                       \
    X(SAMPLING, override_preset, "override-preset", 0, TEXT, 0, 0, NULL, NULL, "NAME",                                 \
      "sampling preset in use at start")                                                                               \
    X(SAMPLING, preset_dir, "preset-dir", 0, TEXT, 0, 0, NULL, "sampler_overrides", "DIR",                             \
      "folder of NAME.yml presets, besides those that came with quipu")                                                \
    X(SAMPLING, strict_params, "strict-params", 0, BOOL, 0, 0, NULL, "false", NULL,                                    \
      "a field that is known but not supported is refused instead of logged")                                          \
    X(SAMPLING, max_choices, "max-choices", 0, INT, 1, 128, NULL, "16", "N", "most choices (n) of one prompt")         \
    X(SAMPLING, completions_default_max_tokens, "completions-default-max-tokens", 0, INT, 0, CONFIG_MANY, NULL, "0",   \
      "N", "max_tokens of /v1/completions where the request has none; 0: up to the context")                           \
    X(SAMPLING, compat, "compat", 0, CHOICE, 0, 0, "openai|llamacpp", "openai", "openai|llamacpp",                     \
      "whose habit to follow where the two differ")                                                                    \
    X(SAMPLING, reasoning_field, "reasoning-field", 0, CHOICE, 0, 0, "reasoning_content|reasoning|both",               \
      "reasoning_content", "NAME", "member that holds reasoning: reasoning_content, reasoning or both")                \
    X(SAMPLING, tool_format, "tool-format", 0, TEXT, 0, 0, NULL, NULL, "NAME",                                         \
      "how the model writes tool calls (default: found out from its template)")                                        \
    X(SAMPLING, prefill_assistant, "prefill-assistant", 0, BOOL, 0, 0, NULL, "false", NULL,                            \
      "an assistant message at the end is continued")                                                                  \
                                                                                                                       \
    X(QUEUE, max_queue, "max-queue", 0, INT, 1, 1000000, NULL, "512", "N", "jobs that wait; more are answered 503")    \
    X(QUEUE, max_requests_per_minute, "max-requests-per-minute", 0, INT, 0, 1000000, NULL, "0", "N",                   \
      "generations that one api key may ask for; more are answered 429; 0: no limit")                                  \
    X(QUEUE, queue_timeout, "queue-timeout", 0, REAL, 0, 86400, NULL, "600", "S",                                      \
      "longest wait of a job; 0: no limit")                                                                            \
    X(QUEUE, queue_bypass, "queue-bypass", 0, INT, 0, 1000000, NULL, "8", "N",                                         \
      "how often a waiting job may be overtaken by smaller ones")                                                      \
    X(QUEUE, max_generation_seconds, "max-generation-seconds", 0, REAL, 0, 1e6, NULL, "0", "S",                        \
      "longest time of a job; 0: no limit")                                                                            \
    X(QUEUE, max_stall, "max-stall", 0, REAL, 0.01, 100, NULL, "0.5", "N",                                             \
      "a step with running answers takes at most this share longer for prompts")                                       \
    X(QUEUE, allow_client_priority, "allow-client-priority", 0, BOOL, 0, 0, NULL, "false", NULL,                       \
      "the field priority of a request is honoured")                                                                   \
    X(QUEUE, spill_mb, "spill-mb", 0, INT, 0, 16777216, NULL, "0", "N",                                                \
      "MiB of memory for pages without room in the cache")                                                             \
    X(QUEUE, drain_timeout, "drain-timeout", 0, REAL, 0, 86400, NULL, "30", "S",                                       \
      "seconds that running jobs get when the server is told to end")                                                  \
    X(QUEUE, stall_timeout, "stall-timeout", 0, REAL, 0.05, 86400, NULL, "30", "S",                                    \
      "seconds without a step, with work to do, after which the server is not healthy")                                \
    X(QUEUE, fatal_grace, "fatal-grace", 0, REAL, 0, 3600, NULL, "5", "S",                                             \
      "seconds between a device that fails for good and the end of the process, with status 1")
/* clang-format on */

#endif
