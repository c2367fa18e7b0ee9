/* checkpoint.h — all tensors of a model folder, whatever files they are spread over, behind one question: do you have
 * a tensor called X?
 *
 * Opening maps the files and reads their headers; no tensor data is touched. The files are model.safetensors, else
 * those that model.safetensors.index.json names, else all *.safetensors; or a GGUF file, whose tensors get the names
 * that they have elsewhere. Immutable after opening: any number of threads may ask. */
#ifndef FORMAT_CHECKPOINT_H
#define FORMAT_CHECKPOINT_H

#include "base/err.h"
#include "ckpt_tensor.h"

typedef struct checkpoint checkpoint;

/* A folder, or the path of a GGUF file. */
qp_status checkpoint_open(checkpoint **out, const char *folder, qp_error *err);
void checkpoint_close(checkpoint *c);

/* NULL if there is none. */
const ckpt_tensor *checkpoint_find(const checkpoint *c, const char *name);
/* Tensors, in the order of the files and of their bytes in them. */
size_t checkpoint_count(const checkpoint *c);
const ckpt_tensor *checkpoint_at(const checkpoint *c, size_t i);
/* Bytes of all tensors together. */
uint64_t checkpoint_bytes(const checkpoint *c);

/* Files, as named inside the folder. */
int checkpoint_n_files(const checkpoint *c);
const char *checkpoint_file_name(const checkpoint *c, int file);
/* What the files' free metadata says for a key ("format": "pt"); NULL if nothing. The first file that has it. */
const char *checkpoint_metadata(const checkpoint *c, const char *key);

/* From now on checkpoint_will_need advises nothing: little of the files will be read. Before threads ask. */
void checkpoint_rest(checkpoint *c);
/* Advice to the system: these bytes will be read soon / will not be needed for a while. */
void checkpoint_will_need(const checkpoint *c, const ckpt_tensor *tensor);
/* What lies there has been copied: the process need not hold its pages any more. Ignores what is in none of the files;
 * whoever reads it nevertheless finds it again. */
void checkpoint_release(const checkpoint *c, const void *at, size_t bytes);

#endif
