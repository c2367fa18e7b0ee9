/* busfault.h — a file that becomes shorter while its bytes are used in place. */
#ifndef CLI_BUSFAULT_H
#define CLI_BUSFAULT_H

/* From now on that ends the program with a line that says so and exit status 1, in whatever thread it happens. Nothing
 * can be mended then: the weights are gone in the middle of a calculation. */
void busfault_watch(void);

#endif
