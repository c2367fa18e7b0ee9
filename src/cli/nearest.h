/* nearest.h — "did you mean": the known word with the fewest changes from what was typed. */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

#include <stddef.h>

/* Letters to add, drop, change or swap; a typed word that only stops early costs almost nothing. Words over 63 bytes
 * count by their first 63. */
int nearest_cost(const char *typed, const char *known);

#endif
