/* handlers.h — the functions that route_table.c names, by the file that has them. */
#ifndef SERVER_HANDLERS_H
#define SERVER_HANDLERS_H

#include "route.h"

/* health_routes.c */
route_handler health_live, health_ready, health_metrics;
/* models_routes.c */
route_handler models_list, models_one, models_current, models_drafts, models_load, models_unload;
/* adapters_routes.c */
route_handler adapters_loaded, adapters_list, adapters_load, adapters_unload;
/* templates_routes.c */
route_handler templates_list, templates_switch, templates_unload;
/* presets_routes.c */
route_handler presets_list, presets_switch, presets_unload;
/* tokens_routes.c */
route_handler tokens_encode, tokens_decode, tokens_tokenize, tokens_detokenize, tokens_apply_template;
/* jobs_routes.c */
route_handler jobs_list, jobs_cancel, jobs_slots;
/* info_routes.c */
route_handler info_permission, info_props, info_service, info_not_implemented, info_no_other_model, info_no_ranking;
/* page_routes.c */
route_handler page_root;
/* oai_routes.c */
route_handler oai_chat, oai_completions, oai_openapi;
/* embeddings.c */
route_handler embeddings_openai, embeddings_llamacpp;
/* responses.c */
route_handler responses_create, responses_count;
/* anthropic.c */
route_handler anthropic_messages, anthropic_count;
/* kobold.c */
route_handler kobold_generate, kobold_stream, kobold_check, kobold_abort, kobold_model, kobold_context, kobold_version;
route_handler kobold_extra_version, kobold_count;
/* llamacpp.c */
route_handler llamacpp_completion, llamacpp_infill;
/* admin_routes.c */
route_handler admin_drain, admin_log_level;

#endif
