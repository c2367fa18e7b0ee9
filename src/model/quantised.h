/* quantised.h — weights that are stored in several tensors, or as blocks: found by the name of the plain weight. */
#ifndef MODEL_QUANTISED_H
#define MODEL_QUANTISED_H

#include "format/checkpoint.h"
#include "format/hf_quant.h"
#include "quant/quant.h"

/* Whether the checkpoint has the matrix `name` ("....weight") in a quantised form. */
bool quantised_has(const checkpoint *c, const char *name);
/* Whether it has the experts' matrices `name`, stacked, as MXFP4 ("name_blocks", "name_scales"). */
bool quantised_has_experts(const checkpoint *c, const char *name);
/* The name of the plain weight that a stored tensor is a part of ("X.q_scale": "X.weight"); other names as they are. */
void quantised_plain_name(char *out, size_t capacity, const char *stored);
/* That matrix [rows, cols], checked by quant_open: quant_close by the caller. */
qp_status quantised_fetch(quant_matrix *out, const checkpoint *c, const hf_quant *settings, const char *name,
                          int64_t rows, int64_t cols, qp_error *err);

/* Which rows of which expert: `stored` rows each has in all, of which every `step`th from `first` on. */
typedef struct quantised_rows {
    int64_t experts, expert, stored, first, step;
} quantised_rows;
/* That expert's matrix [rows, cols]; no more to close. */
qp_status quantised_fetch_expert(quant_matrix *out, const checkpoint *c, const char *name, const quantised_rows *which,
                                 int64_t rows, int64_t cols, qp_error *err);

#endif
