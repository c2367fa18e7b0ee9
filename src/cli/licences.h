/* licences.h — the libraries of others that the program is made of, and under which terms. Shown by cmd_version.c. */
#ifndef CLI_LICENCES_H
#define CLI_LICENCES_H

#include <stddef.h>

typedef struct licence_row {
    const char *name, *licence, *where, *purpose;
} licence_row;

extern const licence_row licence_rows[];
extern const size_t licence_count;

/* The terms in full, as the packages have them that the program was built with: written by tools/make_licences.py.
 * Ends with a NULL name; empty where the build had no Python or no such packages. */
typedef struct licence_text {
    const char *name, *text;
} licence_text;

extern const licence_text licence_texts[];

#endif
