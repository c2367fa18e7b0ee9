/* clock.h — seconds, monotonic and of the calendar. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

/* Seconds since an arbitrary start, never going back. */
double clock_now(void);
/* Seconds since 1970, as the system's clock has them. */
double clock_unix(void);

#endif
