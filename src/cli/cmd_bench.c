/* cmd_bench.c — placeholder */
#include "command.h"
qp_status cmd_bench(session *s, qp_error *err) { return err_set(err, QP_UNSUPPORTED, 0, "no"); }
