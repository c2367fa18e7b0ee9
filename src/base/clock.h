/* clock.h — monotonic seconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

/* Seconds since an arbitrary start, never going back. */
double clock_now(void);

#endif
