/* page_none.c — stands for the chat page in a program that is built without esbuild or the node packages. */
#include "server/page.h"

const page_file page_built = {{"", 0}, {"", 0}, "", ""};
