/* sampling_check.c — which values of the settings mean something: one line for each. */
#include "chain.h"
#include <stddef.h>

typedef enum setting_kind { REAL, WHOLE } setting_kind;

typedef struct setting_row {
    const char *name;
    size_t offset;
    setting_kind kind;
    double lowest, highest;
} setting_row;

#define ROW(name, kind, lowest, highest)                                                                               \
    { #name, offsetof(qp_sampling, name), kind, lowest, highest }
static const setting_row rows[] = {
    ROW(temperature, REAL, 0, 1e6),
    ROW(top_k, WHOLE, 0, INT32_MAX),
    ROW(top_p, REAL, 0, 1e6),
    ROW(min_p, REAL, 0, 1e6),
    ROW(repetition_penalty, REAL, 0, 1e6),
    ROW(frequency_penalty, REAL, -1e6, 1e6),
    ROW(presence_penalty, REAL, -1e6, 1e6),
    ROW(penalty_range, WHOLE, 0, INT32_MAX),
    ROW(penalty_decay, WHOLE, 0, INT32_MAX),
    ROW(top_a, REAL, 0, 1e6),
    ROW(tfs, REAL, 0, 1e6),
    ROW(typical, REAL, 0, 1e6),
    ROW(smoothing_factor, REAL, 0, 1e6),
    ROW(skew, REAL, -100, 100),
    ROW(min_temperature, REAL, 0, 1e6),
    ROW(max_temperature, REAL, 0, 1e6),
    ROW(temperature_exponent, REAL, 0, 1e6),
    ROW(mirostat_tau, REAL, 0, 1e6),
    ROW(mirostat_eta, REAL, 0, 1e6),
    ROW(xtc_probability, REAL, 0, 1),
    ROW(xtc_threshold, REAL, 0, 1),
    ROW(dry_multiplier, REAL, 0, 1e6),
    ROW(dry_base, REAL, 0, 1e6),
    ROW(dry_allowed_length, WHOLE, 0, INT32_MAX),
    ROW(dry_range, WHOLE, 0, INT32_MAX),
    ROW(dry_max_length, WHOLE, 0, 1024),
    ROW(guidance, REAL, -1e6, 1e6),
};

static double value_of(const qp_sampling *s, const setting_row *row) {
    const char *at = (const char *)s + row->offset;
    return row->kind == REAL ? (double)*(const float *)at : (double)*(const int *)at;
}

qp_status sampling_check(const qp_sampling *s, qp_error *err) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double value = value_of(s, &rows[i]);
        if (!(value >= rows[i].lowest && value <= rows[i].highest)) /* NaN too */
            return err_set(err, QP_BAD_ARGUMENT, 0, "sampling: %s is %.9g, allowed are %.10g to %.10g", rows[i].name,
                           value, rows[i].lowest, rows[i].highest);
    }
    return QP_OK;
}
