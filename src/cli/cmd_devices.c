/* cmd_devices.c — quipu devices: what the machine has, and what will be used. */
#include "command.h"
#include "report.h"
#include <stdio.h>

qp_status cmd_devices(session *s, qp_error *err) {
    char *json;
    ERR_TRY(qp_devices_json(&json, err));
    qp_status status = QP_OK;
    if (s->o->json)
        puts(json);
    else
        status = report_print_text(json, "devices", s->term.colour_out, err);
    qp_free(json);
    return status;
}
