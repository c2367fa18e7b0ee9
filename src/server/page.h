/* page.h — the chat page inside the program: one HTML file, made at build time out of web/.
 *
 * tools/make_page.py writes the file that defines it; where esbuild or the node packages are missing, page_none.c does,
 * and the program has no page. Sent by page_routes.c. */
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include "base/str.h"

typedef struct page_file {
    span plain, packed; /* the same, as it is and gzipped; no bytes: built without the page */
    const char *etag;   /* with its quotes */
    const char *policy; /* Content-Security-Policy: hashes of the scripts and styles that are in it */
} page_file;

extern const page_file page_built;

#endif
