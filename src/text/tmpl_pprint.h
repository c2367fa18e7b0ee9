/* tmpl_pprint.h — the pprint filter. */
#ifndef TEXT_TMPL_PPRINT_H
#define TEXT_TMPL_PPRINT_H

#include "tmpl_run.h"

/* repr() with sorted dictionaries. Python breaks what is longer than 80 characters into lines; that is refused. */
bool tmpl_pprint(tmpl_run *r, value v, value *out);

#endif
