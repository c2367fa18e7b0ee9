/* nform.h — the four Unicode normal forms, over the reference's character tables (uni.h). */
#ifndef TEXT_NFORM_H
#define TEXT_NFORM_H

#include "base/str.h"

typedef enum nform { NFORM_C, NFORM_D, NFORM_KC, NFORM_KD } nform;

/* Whether the text is certainly unchanged by the form. */
bool nform_is_clean(nform form, span text);
/* Appends the normal form of well-formed text. */
void nform_apply(nform form, span text, strbuf *out);

#endif
