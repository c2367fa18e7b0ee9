/* sampler_table.c — the list of stages, in the order in which they are applied. A new sampler is one line here. */
#include "sampler_table.h"

const sampler_row *const sampler_rows[] = {&sampler_top_k, &sampler_top_p, &sampler_min_p, &sampler_temperature_last};
const int sampler_n_rows = sizeof sampler_rows / sizeof *sampler_rows;
