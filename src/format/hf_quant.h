/* hf_quant.h — what config.json (or a file beside it) says about quantised weights: which method, and the few numbers
 * that the tensors themselves do not tell. */
#ifndef FORMAT_HF_QUANT_H
#define FORMAT_HF_QUANT_H

#include "hfconfig.h"

#define HF_QUANT_METHODS(X)                                                                                            \
    X(NONE, "none")                                                                                                    \
    X(EXL2, "exl2")                                                                                                    \
    X(GPTQ, "gptq")                                                                                                    \
    X(AWQ, "awq")                                                                                                      \
    X(FP8, "fp8")                                                                                                      \
    X(COMPRESSED, "compressed-tensors")                                                                                \
    X(MXFP4, "mxfp4")                                                                                                  \
    X(EXL3, "exl3")                                                                                                    \
    X(BITSANDBYTES, "bitsandbytes")                                                                                    \
    X(MODELOPT, "modelopt")

typedef enum hf_quant_method {
#define X(id, name) HF_QUANT_##id,
    HF_QUANT_METHODS(X)
#undef X
        HF_QUANT_METHOD_COUNT
} hf_quant_method;

typedef struct hf_quant {
    hf_quant_method method;
    int bits;       /* 0: not given */
    int group;      /* inputs; 0: not given, -1: all */
    bool is_second; /* GPTQ: zeros are stored as they are ("gptq_v2") */
    bool is_gemv;   /* AWQ's other layout */
    int block[2];   /* FP8: outputs and inputs of a block; 0: not given */
} hf_quant;

const char *hf_quant_name(hf_quant_method method);

/* "quantization_config" of the config, else quantize_config.json or quant_config.json beside it. What this engine
 * cannot read is QP_UNSUPPORTED and says so. */
qp_status hf_quant_read(hf_quant *out, const hfconfig *c, qp_error *err);

#endif
