/* sampler_table.c — the list of stages, in the order in which they are applied. A new sampler is one line here. */
#include "sampler_table.h"

const sampler_row *const sampler_rows[] = {
    &sampler_top_k,    &sampler_top_p,   &sampler_top_a,    &sampler_min_p,
    &sampler_tfs,      &sampler_typical, &sampler_mirostat, &sampler_temperature_last,
    &sampler_dynatemp, &sampler_xtc,
};
const int sampler_n_rows = sizeof sampler_rows / sizeof *sampler_rows;
