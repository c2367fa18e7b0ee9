/* route_table.c — every route: method, path, function, who may call it. A new endpoint is one file and one row here. */
#include "handlers.h"

enum { INLINE = ROUTE_INLINE, NO_ALIAS = ROUTE_NO_ALIAS };

/* clang-format off */
const route_row route_rows[] = {
    {HTTP_GET, "/health/live", health_live, ACCESS_NONE, INLINE, TIER_P0},
    {HTTP_GET, "/health/ready", health_ready, ACCESS_NONE, 0, TIER_P0},
    {HTTP_GET, "/health", health_ready, ACCESS_NONE, 0, TIER_P0},
    {HTTP_GET, "/v1/health", health_ready, ACCESS_NONE, NO_ALIAS, TIER_P0},
    {HTTP_GET, "/metrics", health_metrics, ACCESS_NONE, ROUTE_METRICS, TIER_P0},

    {HTTP_GET, "/v1/models", models_list, ACCESS_API, 0, TIER_P0},
    {HTTP_GET, "/v1/models/{id}", models_one, ACCESS_API, 0, TIER_P0},
    {HTTP_GET, "/v1/model", models_current, ACCESS_API, 0, TIER_P0},
    {HTTP_GET, "/v1/model/list", models_list, ACCESS_API, 0, TIER_P0},
    {HTTP_GET, "/v1/model/draft/list", models_drafts, ACCESS_API, 0, TIER_P0},
    {HTTP_POST, "/v1/model/load", models_load, ACCESS_ADMIN, ROUTE_NO_DONE, TIER_P0},
    {HTTP_POST, "/v1/model/unload", models_unload, ACCESS_ADMIN, 0, TIER_P0},
    {HTTP_GET, "/v1/model/embedding", models_current, ACCESS_API, 0, TIER_P2},
    {HTTP_GET, "/v1/model/embedding/list", models_list, ACCESS_API, 0, TIER_P2},
    {HTTP_POST, "/v1/model/embedding/load", info_no_other_model, ACCESS_ADMIN, 0, TIER_P2},
    {HTTP_POST, "/v1/model/embedding/unload", info_no_other_model, ACCESS_ADMIN, 0, TIER_P2},

    {HTTP_POST, "/v1/chat/completions", oai_chat, ACCESS_API, ROUTE_GENERATES, TIER_P0},
    {HTTP_POST, "/v1/completions", oai_completions, ACCESS_API, ROUTE_GENERATES, TIER_P0},
    {HTTP_POST, "/v1/embeddings", embeddings_openai, ACCESS_API, ROUTE_GENERATES, TIER_P2},
    {HTTP_POST, "/v1/responses", responses_create, ACCESS_API, ROUTE_GENERATES | ROUTE_NO_DONE, TIER_P1},
    {HTTP_POST, "/v1/responses/input_tokens", responses_count, ACCESS_API, 0, TIER_P1},
    {HTTP_POST, "/v1/messages", anthropic_messages, ACCESS_API, ROUTE_GENERATES | ROUTE_ANTHROPIC | ROUTE_NO_DONE,
     TIER_P1},
    {HTTP_POST, "/v1/messages/count_tokens", anthropic_count, ACCESS_API, ROUTE_ANTHROPIC, TIER_P1},

    {HTTP_POST, "/completion", llamacpp_completion, ACCESS_API, ROUTE_GENERATES | ROUTE_NO_DONE, TIER_P2},
    {HTTP_POST, "/infill", llamacpp_infill, ACCESS_API, ROUTE_GENERATES | ROUTE_NO_DONE, TIER_P2},
    {HTTP_POST, "/embedding", embeddings_llamacpp, ACCESS_API, ROUTE_GENERATES, TIER_P2},
    {HTTP_POST, "/rerank", info_no_ranking, ACCESS_API, 0, TIER_P2},
    {HTTP_POST, "/v1/rerank", info_no_ranking, ACCESS_API, NO_ALIAS, TIER_P2},
    {HTTP_POST, "/api/v1/generate", kobold_generate, ACCESS_API, ROUTE_GENERATES, TIER_P2},
    {HTTP_POST, "/api/extra/generate/stream", kobold_stream, ACCESS_API, ROUTE_GENERATES | ROUTE_NO_DONE, TIER_P2},
    {HTTP_GET, "/api/extra/generate/check", kobold_check, ACCESS_API, 0, TIER_P2},
    {HTTP_POST, "/api/extra/generate/check", kobold_check, ACCESS_API, 0, TIER_P2},
    {HTTP_POST, "/api/extra/abort", kobold_abort, ACCESS_API, 0, TIER_P2},
    {HTTP_GET, "/api/v1/model", kobold_model, ACCESS_API, 0, TIER_P2},
    {HTTP_GET, "/api/v1/config/max_context_length", kobold_context, ACCESS_API, 0, TIER_P2},
    {HTTP_GET, "/api/v1/info/version", kobold_version, ACCESS_API, 0, TIER_P2},
    {HTTP_GET, "/api/extra/version", kobold_extra_version, ACCESS_API, 0, TIER_P2},
    {HTTP_GET, "/api/extra/true_max_context_length", kobold_context, ACCESS_API, 0, TIER_P2},
    {HTTP_POST, "/api/extra/embeddings", embeddings_openai, ACCESS_API, ROUTE_GENERATES, TIER_P2},
    {HTTP_POST, "/api/extra/tokencount", kobold_count, ACCESS_API, 0, TIER_P2},

    {HTTP_GET, "/openapi.json", oai_openapi, ACCESS_NONE, 0, TIER_P1},

    {HTTP_POST, "/v1/token/encode", tokens_encode, ACCESS_API, 0, TIER_P0},
    {HTTP_POST, "/v1/token/decode", tokens_decode, ACCESS_API, 0, TIER_P0},
    {HTTP_POST, "/tokenize", tokens_tokenize, ACCESS_API, 0, TIER_P1},
    {HTTP_POST, "/detokenize", tokens_detokenize, ACCESS_API, 0, TIER_P1},
    {HTTP_POST, "/apply-template", tokens_apply_template, ACCESS_API, 0, TIER_P1},

    {HTTP_GET, "/v1/lora", adapters_loaded, ACCESS_API, 0, TIER_P1},
    {HTTP_GET, "/v1/loras", adapters_list, ACCESS_API, 0, TIER_P1},
    {HTTP_GET, "/v1/lora/list", adapters_list, ACCESS_API, 0, TIER_P1},
    {HTTP_POST, "/v1/lora/load", adapters_load, ACCESS_ADMIN, 0, TIER_P1},
    {HTTP_POST, "/v1/lora/unload", adapters_unload, ACCESS_ADMIN, 0, TIER_P1},
    {HTTP_GET, "/v1/templates", templates_list, ACCESS_API, 0, TIER_P1},
    {HTTP_GET, "/v1/template/list", templates_list, ACCESS_API, 0, TIER_P1},
    {HTTP_POST, "/v1/template/switch", templates_switch, ACCESS_ADMIN, 0, TIER_P1},
    {HTTP_POST, "/v1/template/unload", templates_unload, ACCESS_ADMIN, 0, TIER_P1},
    {HTTP_GET, "/v1/sampling/overrides", presets_list, ACCESS_API, 0, TIER_P1},
    {HTTP_GET, "/v1/sampling/override/list", presets_list, ACCESS_API, 0, TIER_P1},
    {HTTP_POST, "/v1/sampling/override/switch", presets_switch, ACCESS_ADMIN, 0, TIER_P1},
    {HTTP_POST, "/v1/sampling/override/unload", presets_unload, ACCESS_ADMIN, 0, TIER_P1},

    {HTTP_GET, "/v1/auth/permission", info_permission, ACCESS_API, 0, TIER_P1},
    {HTTP_GET, "/props", info_props, ACCESS_API, 0, TIER_P1},
    {HTTP_GET, "/slots", jobs_slots, ACCESS_API, 0, TIER_P1},
    {HTTP_GET, "/.well-known/serviceinfo", info_service, ACCESS_NONE, 0, TIER_P1},
    {HTTP_GET, "/v1/jobs", jobs_list, ACCESS_API, 0, TIER_P1},
    {HTTP_DELETE, "/v1/jobs/{id}", jobs_cancel, ACCESS_API, 0, TIER_P1},
    {HTTP_POST, "/admin/drain", admin_drain, ACCESS_ADMIN, 0, TIER_P1},
    {HTTP_POST, "/admin/log-level", admin_log_level, ACCESS_ADMIN, 0, TIER_P1},
    {HTTP_POST, "/v1/download", info_not_implemented, ACCESS_ADMIN, 0, TIER_P2},
    {HTTP_GET, "/", page_root, ACCESS_NONE, 0, TIER_P2},
};
/* clang-format on */

const size_t route_count = sizeof route_rows / sizeof *route_rows;
