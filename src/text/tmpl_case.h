/* tmpl_case.h — upper, lower, title and so on of whole texts. */
#ifndef TEXT_TMPL_CASE_H
#define TEXT_TMPL_CASE_H

#include "tmpl_run.h"
#include "tmpl_unicode.h"

bool tmpl_change_case(tmpl_run *r, value text, char_case to, value *out);
/* First character in title case, the rest in lower case. */
bool tmpl_capitalize(tmpl_run *r, value text, value *out);
/* str.title(): words begin where a cased letter follows anything else. */
bool tmpl_title(tmpl_run *r, value text, value *out);
/* The title filter: words begin behind a hyphen, a space or an opening bracket. */
bool tmpl_title_words(tmpl_run *r, value text, value *out);
bool tmpl_swap_case(tmpl_run *r, value text, value *out);

#endif
