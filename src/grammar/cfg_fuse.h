/* cfg_fuse.h — which symbols are regular languages of their own. */
#ifndef GRAMMAR_CFG_FUSE_H
#define GRAMMAR_CFG_FUSE_H

#include "base/mem.h"
#include "grammar/ir.h"

/* regular[s] becomes the language of each symbol that can be a terminal, the others stay RX_NONE. `uses` lists for
 * every symbol s, from from[s] to from[s + 1], the symbols that mention it. false: no memory. */
bool cfg_fuse(ir *g, const uint32_t *from, const uint32_t *uses, const bool *productive, rx *regular);

#endif
