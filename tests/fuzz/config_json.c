/* config_json.c — any bytes as config.json and as generation_config.json: refused with words, or a shape that keeps
 * all its promises and gives finite rotary frequencies. */
#include "model/arch.h"
#include "model/rope.h"
#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rope(const model_shape *s, const hf_rope *r) {
    static const uint64_t lengths[] = {1, 4096, 1 << 30};
    float inv_freq[SHAPE_MAX_HEAD_DIM / 2], attention;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        rope_frequencies(r, s->rot_dims, lengths[i], inv_freq, &attention);
        if (!isfinite(attention)) abort();
        for (int j = 0; j < s->rot_dims / 2; j++)
            if (!isfinite(inv_freq[j])) abort();
    }
}

static void check_config(const hfconfig *c) {
    static model_shape s;
    const arch_row *row;
    qp_error err = {0};
    const qp_status status = shape_read(&s, &row, c, &err);
    if (status != QP_OK) {
        if (err.code != status || !err.text[0]) abort();
        return;
    }
    if (shape_check(&s, "fuzz", NULL) != QP_OK) abort();
    for (int i = 0; i < s.n_ropes; i++) check_rope(&s, &s.ropes[i]);
    for (const slot_row *r = row->slots; r->pattern; r++)
        if (shape_dim(&s, r->rows) < (r->need == NEED_ALWAYS))
            abort(); /* what a shape does not need may have no rows */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hfconfig *c;
    hf_ids ids = {0};
    hf_sampling sampling = {0};
    if (hfconfig_new(&c, (const char *)data, size, "fuzz", NULL) == QP_OK) {
        check_config(c);
        hfconfig_close(c);
    }
    hf_generation_parse((const char *)data, size, "fuzz", &ids, &sampling, NULL);
    if (ids.n_eos < 0 || ids.n_eos > HF_MAX_EOS) abort();
    return 0;
}
