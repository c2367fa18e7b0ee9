/* report.h — a JSON document as a table for people.
 *
 * Objects become sections of aligned names and values, arrays of objects become tables with a column for each key,
 * keys that end in "bytes" are shown in binary units. So a report never hides what the document says. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "base/json.h"

void report_print(const json_t *document, bool coloured);
/* The same of a text; `where` names it in errors. */
qp_status report_print_text(const char *json, const char *where, bool coloured, qp_error *err);
/* "1.50 GiB" of a number of bytes; returns out. */
const char *report_bytes(char out[32], double bytes);

#endif
