/* script_table.h — which script a character belongs to, for \p{Greek} (generated, see tools/make_script_table.py). */
#ifndef GRAMMAR_SCRIPT_TABLE_H
#define GRAMMAR_SCRIPT_TABLE_H

#include <stdint.h>

typedef struct script_range {
    uint32_t first, last;
    int script; /* in script_names */
} script_range;

extern const int script_n_names, script_n_ranges;
extern const char *const script_names[];
extern const script_range script_ranges[];

#endif
