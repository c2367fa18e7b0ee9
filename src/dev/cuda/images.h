/* images.h — the compiled kernels inside the library, one image for each file of kernels/.
 *
 * Made by the build (tools/cuda_images.cmake) where nvcc is; images_none.c stands in where it is not. */
#ifndef DEV_CUDA_IMAGES_H
#define DEV_CUDA_IMAGES_H

typedef struct cuda_image {
    const char *name;
    const unsigned char *bytes;
} cuda_image;

extern const cuda_image cuda_images[]; /* until a NULL name */
/* The architectures that they were made for, "80 86 89 90a 100 120"; "" where there are none. */
extern const char cuda_architectures[];

#endif
