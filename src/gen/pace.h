/* pace.h — how many prompt rows fit into a step without making running answers wait. */
#ifndef GEN_PACE_H
#define GEN_PACE_H

#include "model/shape.h"

/* What was measured of this machine and model so far. */
typedef struct pace {
    double depth_cost; /* one row attending to one position, in rows without attention */
    double decode_s;   /* a step of answers alone; 0: not seen yet */
    double unit_s;     /* one prompt row without attention; 0: not seen yet */
    int decode_rows;   /* behind decode_s */
    int age;           /* mixed steps since then */
} pace;

void pace_open(pace *p, const model_shape *shape);
/* A step has taken `seconds`; `units`: pace_units of its prompt rows. */
void pace_observe(pace *p, int decode_rows, double units, double seconds);
/* The cost of n rows from position `depth` on. */
double pace_units(const pace *p, int64_t depth, int n);
/* Units of prompt rows that a step with decode_rows running answers may take, so that it lasts at most (1 + max_stall)
 * times as long as without. 0: none in this step, measure the answers alone first. */
double pace_budget(const pace *p, int decode_rows, double max_stall);
/* How many rows from `depth` on the units buy; at least 1. */
int pace_rows(const pace *p, int64_t depth, double units, int most);

#endif
