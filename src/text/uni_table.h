/* uni_table.h — the generated tables behind uni.c (see tools/make_unicode_table.py). */
#ifndef TEXT_UNI_TABLE_H
#define TEXT_UNI_TABLE_H

#include <stdint.h>

extern const uint16_t uni_stage1[4352];
extern const uint8_t uni_stage2[];
extern const int uni_n_records;
extern const uint64_t uni_records[];

extern const int uni_n_scripts;
extern const uint32_t uni_script_start[];
extern const uint8_t uni_script[];

/* Rows of (character, place in uni_pool << 8 | length), sorted. */
extern const int uni_n_nfd, uni_n_nfkd, uni_n_lower;
extern const uint32_t uni_nfd[], uni_nfkd[], uni_lower[];
extern const uint32_t uni_pool[];
/* Rows of (first, second, composed), sorted. */
extern const int uni_n_compose;
extern const uint32_t uni_compose[];
/* character << 8 | canonical combining class, sorted. */
extern const int uni_n_class;
extern const uint32_t uni_class[];

/* Ranges (first, last) of characters that libraries with Unicode 14 do not know. */
extern const int uni_n_young;
extern const uint32_t uni_young[];

#endif
