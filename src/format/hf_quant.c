/* hf_quant.c — settings of quantised models, in the spellings of AutoGPTQ, GPTQModel, AutoRound and AutoAWQ.
 *
 * Called by model.c and `inspect`. Only what changes the meaning of bits is read; that the numbers fit the tensors is
 * checked where these are opened (model/quantised.c). */
#include "hf_quant.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include <string.h>
#include <strings.h>

enum { PATH_BYTES = 4096, FILE_LIMIT = 4 << 20 };

/* Spellings that mean a method, and those that are laid out in a way this engine does not read. */
static const struct {
    const char *name;
    hf_quant_method method;
} methods[] = {
    {"exl2", HF_QUANT_EXL2},
    {"gptq", HF_QUANT_GPTQ},
    {"gptqmodel", HF_QUANT_GPTQ},
    {"auto-round", HF_QUANT_GPTQ},
    {"intel/auto-round", HF_QUANT_GPTQ},
    {"autoround", HF_QUANT_GPTQ},
    {"awq", HF_QUANT_AWQ},
    {"fp8", HF_QUANT_FP8},
    {"fbgemm_fp8", HF_QUANT_FP8},
    {"compressed-tensors", HF_QUANT_COMPRESSED},
    {"mxfp4", HF_QUANT_MXFP4},
    {"exl3", HF_QUANT_EXL3},
    {"bitsandbytes", HF_QUANT_BITSANDBYTES},
    {"modelopt", HF_QUANT_MODELOPT},
    {"modelopt_fp4", HF_QUANT_MODELOPT},
};

const char *hf_quant_name(hf_quant_method method) {
    static const char *const names[] = {
#define X(id, name) name,
        HF_QUANT_METHODS(X)
#undef X
    };
    return names[method];
}

static bool is_one_of(const char *text, const char *const *list) {
    for (; *list; list++)
        if (!strcasecmp(text, *list)) return true;
    return false;
}

static qp_status unsupported(const char *where, const char *key, const char *value, const char *allowed,
                             qp_error *err) {
    char shown[48];
    return err_set(err, QP_UNSUPPORTED, 0, "%s: quantized weights with \"%s\" \"%s\", allowed are %s", where, key,
                   utf8_shown(shown, sizeof shown, value), allowed);
}

static qp_status read_method(hf_quant *out, const json_t *settings, const char *where, qp_error *err) {
    const char *name = NULL;
    ERR_TRY(json_get_text(settings, "quant_method", &name, where, err));
    out->method = HF_QUANT_GPTQ; /* files of AutoGPTQ's own name none */
    if (!name) return QP_OK;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcasecmp(methods[i].name, name)) return out->method = methods[i].method, QP_OK;
    return unsupported(where, "quant_method", name,
                       "exl2, exl3, gptq, awq, auto-round, fp8, compressed-tensors, mxfp4, bitsandbytes, modelopt",
                       err);
}

/* AutoRound says "auto_round:auto_gptq", "auto_round:auto_awq". */
static qp_status read_packing(hf_quant *out, const json_t *settings, const char *where, qp_error *err) {
    const char *packing = NULL;
    ERR_TRY(json_get_text(settings, "packing_format", &packing, where, err));
    if (packing && strstr(packing, "awq")) out->method = HF_QUANT_AWQ;
    if (packing && !strstr(packing, "awq") && !strstr(packing, "gptq"))
        return unsupported(where, "packing_format", packing, "auto_round:auto_gptq, auto_round:auto_awq", err);
    return QP_OK;
}

static qp_status read_gptq(hf_quant *out, const json_t *settings, const char *where, qp_error *err) {
    static const char *const first[] = {"gptq", NULL}, *const second[] = {"gptq_v2", NULL};
    const char *format = "gptq";
    bool is_marlin = false;
    ERR_TRY(json_get_text(settings, "checkpoint_format", &format, where, err));
    ERR_TRY(json_get_bool(settings, "is_marlin_format", &is_marlin, where, err));
    if (is_marlin) return unsupported(where, "is_marlin_format", "true", "false", err);
    out->is_second = is_one_of(format, second);
    if (out->is_second || is_one_of(format, first)) return QP_OK;
    return unsupported(where, "checkpoint_format", format, "gptq, gptq_v2", err);
}

static qp_status read_awq(hf_quant *out, const json_t *settings, const char *where, qp_error *err) {
    /* Names of ways to run the same layout. */
    static const char *const gemm[] = {"gemm", "marlin", "exllama", "ipex", NULL}, *const gemv[] = {"gemv", NULL};
    const char *version = "gemm";
    bool zero_point = true;
    ERR_TRY(json_get_text(settings, "version", &version, where, err));
    ERR_TRY(json_get_bool(settings, "zero_point", &zero_point, where, err));
    if (!zero_point) return unsupported(where, "zero_point", "false", "true", err);
    out->is_gemv = is_one_of(version, gemv);
    if (out->is_gemv || is_one_of(version, gemm)) return QP_OK;
    return unsupported(where, "version", version, "gemm, gemv", err);
}

static qp_status read_numbers(hf_quant *out, const json_t *settings, const char *where, qp_error *err) {
    int64_t bits = 0, group = 0;
    ERR_TRY(json_get_int(settings, "w_bit", 1, 16, &bits, where, err));
    ERR_TRY(json_get_int(settings, "bits", 1, 16, &bits, where, err));
    ERR_TRY(json_get_int(settings, "q_group_size", -1, 1 << 20, &group, where, err));
    ERR_TRY(json_get_int(settings, "group_size", -1, 1 << 20, &group, where, err));
    out->bits = (int)bits;
    out->group = (int)group;
    return QP_OK;
}

/* "weight_block_size": [128, 128]. */
static qp_status read_block(hf_quant *out, const json_t *settings, const char *where, qp_error *err) {
    json_t *block;
    ERR_TRY(json_get_array(settings, "weight_block_size", &block, where, err));
    if (!block) return QP_OK;
    for (size_t i = 0; i < 2; i++) {
        const json_t *side = json_array_get(block, i);
        if (json_array_size(block) != 2 || !json_is_integer(side) || json_integer_value(side) < 1 ||
            json_integer_value(side) > 1 << 20)
            return err_set(err, QP_BAD_FORMAT, 0, "%s: \"weight_block_size\" is no pair of numbers from 1 to 2^20",
                           where);
        out->block[i] = (int)json_integer_value(side);
    }
    return QP_OK;
}

/* Only layouts of weights matter; that activations were rounded too in training does not. */
static qp_status read_compressed(const json_t *settings, const char *where, qp_error *err) {
    static const char *const known[] = {
        "float-quantized", "naive-quantized", "int-quantized", "pack-quantized", "dense", "nvfp4-pack-quantized", NULL};
    const char *format = "dense";
    ERR_TRY(json_get_text(settings, "format", &format, where, err));
    if (is_one_of(format, known)) return QP_OK;
    return unsupported(where, "format", format, "float-quantized, int-quantized, pack-quantized, nvfp4-pack-quantized",
                       err);
}

/* Four bits have tensors of their own beside them; LLM.int8()'s splitting of activations is not known here. */
static qp_status read_bitsandbytes(const json_t *settings, const char *where, qp_error *err) {
    bool is_eight = false;
    ERR_TRY(json_get_bool(settings, "load_in_8bit", &is_eight, where, err));
    return is_eight ? unsupported(where, "load_in_8bit", "true", "false", err) : QP_OK;
}

static qp_status read_modelopt(const json_t *settings, const char *where, qp_error *err) {
    static const char *const known[] = {"NVFP4", "FP8", NULL};
    const char *algorithm = "NVFP4";
    ERR_TRY(json_get_text(settings, "quant_algo", &algorithm, where, err));
    return is_one_of(algorithm, known) ? QP_OK : unsupported(where, "quant_algo", algorithm, "NVFP4, FP8", err);
}

static qp_status read_settings(hf_quant *out, const json_t *settings, const char *where, qp_error *err) {
    ERR_TRY(read_method(out, settings, where, err));
    if (out->method == HF_QUANT_EXL2 || out->method == HF_QUANT_MXFP4 || out->method == HF_QUANT_EXL3)
        return QP_OK; /* the tensors say all */
    if (out->method == HF_QUANT_BITSANDBYTES) return read_bitsandbytes(settings, where, err);
    if (out->method == HF_QUANT_MODELOPT) return read_modelopt(settings, where, err);
    if (out->method == HF_QUANT_FP8) return read_block(out, settings, where, err);
    if (out->method == HF_QUANT_COMPRESSED) return read_compressed(settings, where, err);
    ERR_TRY(read_packing(out, settings, where, err));
    ERR_TRY(read_numbers(out, settings, where, err));
    return out->method == HF_QUANT_AWQ ? read_awq(out, settings, where, err) : read_gptq(out, settings, where, err);
}

static qp_status read_file(hf_quant *out, const char *path, qp_error *err) {
    json_t *root;
    ERR_TRY(json_load_path(&root, path, FILE_LIMIT, err));
    const qp_status status =
        json_is_object(root) ? read_settings(out, root, path, err)
                             : err_set(err, QP_BAD_FORMAT, 0, "%s: is %s, expected an object", path, json_kind(root));
    json_decref(root);
    return status;
}

/* The folder of a config.json; "" for a config that came from elsewhere. */
static void folder_of(char out[PATH_BYTES], const char *where) {
    const char *slash = strrchr(where, '/');
    const size_t bytes = slash ? (size_t)(slash - where) : 0;
    out[0] = 0;
    if (!bytes || bytes >= PATH_BYTES || strcmp(slash, "/config.json")) return;
    memcpy(out, where, bytes);
    out[bytes] = 0;
}

qp_status hf_quant_read(hf_quant *out, const hfconfig *c, qp_error *err) {
    static const char *const files[] = {"quantize_config.json", "quant_config.json"};
    *out = (hf_quant){0};
    const json_t *settings = hfconfig_value(c, "quantization_config");
    if (settings && !json_is_null(settings)) {
        if (json_is_object(settings)) return read_settings(out, settings, hfconfig_where(c), err);
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"quantization_config\" is %s, expected an object",
                       hfconfig_where(c), json_kind(settings));
    }
    char folder[PATH_BYTES], path[PATH_BYTES];
    folder_of(folder, hfconfig_where(c));
    for (int i = 0; *folder && i < 2; i++) {
        ERR_TRY(file_join(path, sizeof path, folder, files[i], err));
        if (file_exists(path)) return read_file(out, path, err);
    }
    return QP_OK;
}
