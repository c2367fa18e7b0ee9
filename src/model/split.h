/* split.h — a model on several devices: what was asked for, and which layers go where. */
#ifndef MODEL_SPLIT_H
#define MODEL_SPLIT_H

#include "dev/dev.h"

/* What was asked for. */
typedef struct split_wish {
    int n;                           /* devices; 0: all that there are */
    bool counts_layers;              /* layers[] tells, else bytes[] */
    int layers[DEV_MOST_SHARES];     /* of each */
    uint64_t bytes[DEV_MOST_SHARES]; /* that may be used of each; 0: what is left there */
} split_wish;

/* "auto", gibibytes "20,24", or layers "16L,16L". NULL: one device. */
qp_status split_read(split_wish *out, const char *text, qp_error *err);

/* What stands against what, in bytes. */
typedef struct split_sizes {
    const uint64_t *layers; /* [n_layers] */
    int n_layers;
    uint64_t before, behind;        /* what the first and the last device have besides */
    uint64_t room[DEV_MOST_SHARES]; /* of each device, without its scratch */
} split_sizes;

/* Writes the layers from which on each of n devices has its share, so that the largest cache fits beside them; false:
 * the model alone does not fit. Then the last has all that the others have no room for. */
bool split_balance(int *first, int n, const split_sizes *sizes);
/* The same where the layers of each are told. */
qp_status split_count(int *first, const split_wish *wish, int n_layers, qp_error *err);

/* Opens the devices, from the one that `options` name on. */
qp_status split_open(dev_split *out, const split_wish *wish, const dev_options *options, qp_error *err);
void split_close(dev_split *s);
/* "cuda:0", or "cuda:0+1" for several. */
void split_name(char *out, size_t capacity, const dev_split *s);

#endif
