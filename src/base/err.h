/* err.h — filling the caller-owned error struct.
 *
 * Every function that can fail ends `return err_set(err, QP_..., offset, "what: found X, allowed Y")`; the struct may
 * be NULL. quipu.h is included for qp_status, qp_error and qp_log alone. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "quipu.h"

/* Writes code, offset and the formatted text (cut to fit, never in the middle of a character); returns `code`. */
qp_status err_set(qp_error *err, qp_status code, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Puts `prefix: ` before the text that is already there: adds the place as an error travels up. Returns err's code,
 * or `code` where err is NULL. */
qp_status err_prefix(qp_error *err, qp_status code, const char *format, ...) __attribute__((format(printf, 3, 4)));
qp_status err_no_memory(qp_error *err, size_t bytes, const char *what);

/* Leaves the function with the status of `call` unless it is QP_OK. */
#define ERR_TRY(call)                                                                                                  \
    do {                                                                                                               \
        const qp_status try_status = (call);                                                                           \
        if (try_status != QP_OK) return try_status;                                                                    \
    } while (0)

#endif
