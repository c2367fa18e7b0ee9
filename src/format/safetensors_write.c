/* safetensors_write.c — named arrays in memory -> a safetensors file.
 *
 * Used by the command `logits` and by tests. The header is made first from types and shapes alone, padded with spaces
 * so that the data begins at a multiple of 8, then the data streams out; base/outfile puts the file in place at the
 * end. */
#include "base/outfile.h"
#include "base/str.h"
#include "safetensors.h"

static void add_metadata(strbuf *header, const char *const *pairs) {
    strbuf_text(header, "\"__metadata__\":{");
    for (int i = 0; pairs[i]; i += 2) {
        if (i) strbuf_char(header, ',');
        strbuf_json(header, pairs[i], strlen(pairs[i]));
        strbuf_char(header, ':');
        strbuf_json(header, pairs[i + 1], strlen(pairs[i + 1]));
    }
    strbuf_char(header, '}');
}

/* Adds `"name":{...}` and moves *offset to the tensor's end. */
static qp_status add_entry(strbuf *header, const safetensors_item *item, size_t *offset, size_t *bytes, qp_error *err) {
    size_t end;
    if (!safetensors_size(bytes, item->type, item->rank, item->shape) || !mem_add(*offset, *bytes, &end))
        return err_set(err, QP_BAD_ARGUMENT, 0,
                       "tensor \"%s\": its shape is too large or does not fill whole bytes of %s", item->name,
                       dtype_name(item->type));
    strbuf_json(header, item->name, strlen(item->name));
    strbuf_format(header, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name(item->type));
    for (int i = 0; i < item->rank; i++) strbuf_format(header, i ? ",%lld" : "%lld", (long long)item->shape[i]);
    strbuf_format(header, "],\"data_offsets\":[%zu,%zu]}", *offset, end);
    *offset = end;
    return QP_OK;
}

static qp_status make_header(strbuf *header, const safetensors_item *items, size_t n_items, const char *const *metadata,
                             qp_error *err) {
    size_t offset = 0, bytes;
    strbuf_char(header, '{');
    if (metadata && metadata[0]) add_metadata(header, metadata);
    for (size_t i = 0; i < n_items; i++) {
        if (i || (metadata && metadata[0])) strbuf_char(header, ',');
        ERR_TRY(add_entry(header, &items[i], &offset, &bytes, err));
    }
    strbuf_char(header, '}');
    while (header->bytes % 8 && !header->failed) strbuf_char(header, ' ');
    return strbuf_status(header, err, "a safetensors header");
}

static void stream(outfile *file, const strbuf *header, const safetensors_item *items, size_t n_items) {
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)header->bytes >> (8 * i));
    outfile_add(file, length, sizeof length);
    outfile_add(file, header->at, header->bytes);
    for (size_t i = 0; i < n_items; i++) {
        size_t bytes = 0;
        safetensors_size(&bytes, items[i].type, items[i].rank, items[i].shape); /* make_header has checked it */
        outfile_add(file, items[i].data, bytes);
    }
}

qp_status safetensors_write(const char *path, const safetensors_item *items, size_t n_items,
                            const char *const *metadata, qp_error *err) {
    strbuf header = {0};
    outfile *file = NULL;
    qp_status status = make_header(&header, items, n_items, metadata, err);
    if (status == QP_OK) status = outfile_open(&file, path, err);
    if (status == QP_OK) {
        stream(file, &header, items, n_items);
        status = outfile_commit(file, err);
    }
    strbuf_free(&header);
    return status;
}
