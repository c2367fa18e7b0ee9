/* cmd_version.c — quipu version: which one this is and what is inside. */
#include "command.h"
#include "licences.h"
#include "report.h"
#include <stdio.h>
#include <string.h>

static void print_licences(void) {
    for (const licence_row *l = licence_rows; l < licence_rows + licence_count; l++)
        printf("%-18s %-26s %-17s %s\n", l->name, l->licence, l->where, l->purpose);
    for (const licence_text *t = licence_texts; t->name; t++) printf("\n---- %s ----\n\n%s", t->name, t->text);
}

qp_status cmd_version(session *s, qp_error *err) {
    if (s->o->licences) return print_licences(), QP_OK;
    if (s->o->json) {
        printf("{\"version\": \"%s\", \"build\": %s}\n", qp_version(), qp_build_json());
        return QP_OK;
    }
    json_t *build;
    ERR_TRY(json_parse(&build, qp_build_json(), strlen(qp_build_json()), "build", err));
    json_object_del(build, "version"); /* the first line has it */
    printf("quipu %s\n", qp_version());
    report_print(build, s->term.colour_out);
    json_decref(build);
    return QP_OK;
}
