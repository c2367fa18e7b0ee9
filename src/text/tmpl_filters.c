/* tmpl_filters.c — finding and calling filters; the rows are in tmpl_filters_*.c, by what they work on. */
#include "tmpl_tables.h"

const filter_row *tmpl_filter_find(span name) {
    static const filter_row *const tables[] = {tmpl_filters_text, tmpl_filters_seq, tmpl_filters_lazy,
                                               tmpl_filters_misc};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const filter_row *row = tables[i]; row->name; row++)
            if (span_is(name, row->name)) return row;
    return NULL;
}

bool tmpl_filter_call(tmpl_run *r, const void *row, value on, const call_args *args, value *out) {
    const filter_row *f = row;
    value slots[MAX_ARGS];
    if (f->names && !tmpl_bind(r, f->name, f->names, args, slots)) return false;
    return f->run(r, on, slots, args, out);
}
