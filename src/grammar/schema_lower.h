/* schema_lower.h — the front end for JSON Schema: a schema's text becomes rules (ir.h). */
#ifndef GRAMMAR_SCHEMA_LOWER_H
#define GRAMMAR_SCHEMA_LOWER_H

#include "grammar/ir.h"

/* An ir_front. Drafts 4 to 2020-12. What is not exact is refused with a JSON Pointer, all problems at once (see the
 * entries of the ir). */
qp_status schema_lower(ir *g, ir_sym *out, span source, const ir_options *options, qp_error *err);
/* Any JSON object: what response_format "json_object" asks for. `source` is not looked at. */
qp_status schema_lower_object(ir *g, ir_sym *out, span source, const ir_options *options, qp_error *err);

#endif
