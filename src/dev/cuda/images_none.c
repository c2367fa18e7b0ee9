/* images_none.c — a build without nvcc: no kernels, so no GPU can be used; dev.c and `quipu devices` say so. */
#include "images.h"
#include <stddef.h>

const cuda_image cuda_images[] = {{NULL, NULL}};
const char cuda_architectures[] = "";
