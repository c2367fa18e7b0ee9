/* bench_print.c — results of `quipu bench` as a table or as one JSON document. */
#include "bench.h"
#include "report.h"
#include "base/str.h"
#include <stdio.h>

/* What a model's products are measured by. */
static const qp_measure *compute_of(const bench_report *r, const bench_limit *limit) {
    return r->info.multiplies_whole && limit->whole.median > 0 ? &limit->whole : &limit->floats;
}

/* The better of the two measurements, so that a share is never flattered. */
static double best_of(const bench_report *r, const bench_row *row) {
    const bench_limit *before = &r->before[row->limit], *after = &r->after[row->limit];
    const double a = row->is_decode ? before->read.median : compute_of(r, before)->median;
    const double b = row->is_decode ? after->read.median : compute_of(r, after)->median;
    return a > b ? a : b;
}

static double share_of(const bench_report *r, const bench_row *row) {
    const double best = best_of(r, row);
    return best > 0 ? row->rate / best : 0;
}

/* ---- for people ---- */

static void print_limit(const char *name, const qp_measure *before, const qp_measure *after, int threads) {
    printf("  %-10s %-14s %3d threads  %10.1f before  %10.1f after  %s\n", name, before->name, threads, before->median,
           after->median, before->unit);
}

static const char *share_text(char out[16], const bench_report *r, const bench_row *row) {
    if (best_of(r, row) > 0)
        snprintf(out, 16, "%5.0f %%", 100 * share_of(r, row));
    else
        snprintf(out, 16, "%7s", "-");
    return out;
}

static void print_row(const bench_report *r, const bench_row *row) {
    char share[16];
    printf("%-8s%7lld%6lld%8lld%8d  %10.2f%10.2f%10.2f  %9.1f %-8s%s  %016llx\n", row->is_decode ? "new" : "prompt",
           (long long)row->tokens, (long long)row->sequences, (long long)row->depth, row->threads, row->median,
           row->lowest, row->highest, row->rate, row->is_decode ? "GB/s" : "GFLOP/s", share_text(share, r, row),
           (unsigned long long)row->hash);
}

static void print_table(const bench_report *r, const session *s) {
    const bool coloured = s->term.colour_out;
    const qp_model_info *i = &r->info;
    char weights[32], per_step[32], peak[32];
    printf("%s%s%s: %.3g parameters, %.3g bits per weight, %s of weights, %s read per step\n",
           term_set(coloured, STYLE_BOLD), r->name, term_set(coloured, STYLE_PLAIN), (double)i->n_parameters,
           i->bits_per_weight, report_bytes(weights, (double)i->weight_bytes),
           report_bytes(per_step, (double)i->step_bytes));
    printf("%s, level %s, precision %s\n", i->device, i->cpu_level,
           i->precision == QP_PRECISION_EXACT ? "exact" : "fast");
    if (r->load_s > 0) printf("loaded in %.2f s, %.2f GB/s\n", r->load_s, (double)i->weight_bytes / r->load_s / 1e9);
    putchar('\n');
    const bool is_known = r->before[0].read.median > 0;
    puts(is_known ? "limits of the machine" : "limits of the machine: not measured on this device");
    for (int k = 0; is_known && k < r->n_threads; k++) {
        print_limit("memory", &r->before[k].read, &r->after[k].read, r->threads[k]);
        print_limit("arithmetic", compute_of(r, &r->before[k]), compute_of(r, &r->after[k]), r->threads[k]);
    }
    printf("\n%s%-8s%7s%6s%8s%8s  %10s%10s%10s  %18s%7s  %s%s\n", term_set(coloured, STYLE_DIM), "", "tokens", "seqs",
           "depth", "threads", "tok/s", "min", "max", "of the machine", "share", "hash of the logits",
           term_set(coloured, STYLE_PLAIN));
    for (int k = 0; k < r->n_rows; k++) print_row(r, &r->rows[k]);
    printf("\n%lld repeats, medians; peak memory %s\n", (long long)s->o->repeat,
           report_bytes(peak, (double)r->peak_bytes));
}

/* ---- for programs ---- */

static void add_measure(strbuf *b, const char *key, const qp_measure *m) {
    if (key) strbuf_format(b, "\"%s\": ", key);
    strbuf_text(b, "{\"name\": ");
    strbuf_json(b, m->name, strlen(m->name));
    strbuf_format(b, ", \"unit\": \"%s\", \"median\": %.9g, \"min\": %.9g, \"max\": %.9g", m->unit, m->median,
                  m->lowest, m->highest);
}

static void add_model(strbuf *b, const bench_report *r) {
    const qp_model_info *i = &r->info;
    strbuf_text(b, "{\"model\": {\"name\": ");
    strbuf_json(b, r->name, strlen(r->name));
    strbuf_text(b, ", \"architecture\": ");
    strbuf_json(b, i->architecture, strlen(i->architecture));
    strbuf_format(b, ", \"parameters\": %llu, \"weight_bytes\": %llu, \"step_bytes\": %llu, \"bits_per_weight\": %.9g",
                  (unsigned long long)i->n_parameters, (unsigned long long)i->weight_bytes,
                  (unsigned long long)i->step_bytes, i->bits_per_weight);
    if (r->load_s > 0) strbuf_format(b, ", \"load_s\": %.9g", r->load_s);
    strbuf_format(b, ", \"device\": \"%s\", \"cpu_level\": \"%s\", \"precision\": \"%s\"}", i->device, i->cpu_level,
                  i->precision == QP_PRECISION_EXACT ? "exact" : "fast");
}

static void add_limits(strbuf *b, const bench_report *r) {
    strbuf_text(b, ", \"limits\": [");
    for (int k = 0; r->before[0].read.median > 0 && k < r->n_threads; k++) {
        strbuf_format(b, "%s{\"threads\": %d, ", k ? ", " : "", r->threads[k]);
        add_measure(b, "read_before", &r->before[k].read);
        strbuf_text(b, "}, ");
        add_measure(b, "read_after", &r->after[k].read);
        strbuf_text(b, "}, ");
        add_measure(b, "compute_before", compute_of(r, &r->before[k]));
        strbuf_text(b, "}, ");
        add_measure(b, "compute_after", compute_of(r, &r->after[k]));
        strbuf_text(b, "}}");
    }
    strbuf_char(b, ']');
}

static void add_row(strbuf *b, const bench_report *r, const bench_row *row) {
    strbuf_format(b, "{\"kind\": \"%s\", \"tokens\": %lld, \"sequences\": %lld, \"depth\": %lld, \"threads\": %d, ",
                  row->is_decode ? "decode" : "prefill", (long long)row->tokens, (long long)row->sequences,
                  (long long)row->depth, row->threads);
    strbuf_format(b, "\"tok_s\": {\"median\": %.9g, \"min\": %.9g, \"max\": %.9g}, ", row->median, row->lowest,
                  row->highest);
    strbuf_format(b, "\"%s\": %.9g, ", row->is_decode ? "gb_s" : "gflop_s", row->rate);
    if (best_of(r, row) > 0) strbuf_format(b, "\"share\": %.9g, ", share_of(r, row));
    strbuf_format(b, "\"hash\": \"%016llx\"}", (unsigned long long)row->hash);
}

/* Facts about the machine, then the end of the document; prints it all. */
static qp_status finish(strbuf *b, qp_error *err) {
    char *machine;
    ERR_TRY(qp_devices_json(&machine, err));
    strbuf_format(b, ", \"version\": \"%s\", \"machine\": ", qp_version());
    for (const char *c = machine; *c; c++) /* on one line */
        if (*c != '\n') strbuf_char(b, *c);
    strbuf_text(b, "}\n");
    qp_free(machine);
    ERR_TRY(strbuf_status(b, err, "the answer"));
    fwrite(b->at, 1, b->bytes, stdout);
    return QP_OK;
}

qp_status bench_print(const bench_report *r, const session *s, qp_error *err) {
    if (!s->o->json) {
        print_table(r, s);
        return QP_OK;
    }
    strbuf b = {0};
    add_model(&b, r);
    add_limits(&b, r);
    strbuf_format(&b, ", \"repeats\": %lld, \"results\": [", (long long)s->o->repeat);
    for (int k = 0; k < r->n_rows; k++) {
        if (k) strbuf_text(&b, ", ");
        add_row(&b, r, &r->rows[k]);
    }
    strbuf_format(&b, "], \"peak_memory_bytes\": %llu", (unsigned long long)r->peak_bytes);
    const qp_status status = finish(&b, err);
    strbuf_free(&b);
    return status;
}

static void print_measure_table(const qp_measure *rows, const int *threads, int count, bool coloured) {
    printf("%s%-14s%8s%12s%12s%12s%s\n", term_set(coloured, STYLE_DIM), "", "threads", "median", "min", "max",
           term_set(coloured, STYLE_PLAIN));
    for (int i = 0; i < count; i++)
        printf("%-14s%8d%12.1f%12.1f%12.1f %s%s\n", rows[i].name, threads[i], rows[i].median, rows[i].lowest,
               rows[i].highest, rows[i].unit,
               rows[i].is_best         ? "  best for 16-bit weights"
               : rows[i].is_best_whole ? "  best for packed weights"
                                       : "");
}

qp_status bench_print_measures(const qp_measure *rows, const int *threads, int count, const session *s, qp_error *err) {
    if (!s->o->json) {
        print_measure_table(rows, threads, count, s->term.colour_out);
        return QP_OK;
    }
    strbuf b = {0};
    strbuf_text(&b, "{\"results\": [");
    for (int i = 0; i < count; i++) {
        if (i) strbuf_text(&b, ", ");
        add_measure(&b, NULL, &rows[i]);
        strbuf_format(&b, ", \"threads\": %d, \"is_best\": %s, \"is_best_whole\": %s}", threads[i],
                      rows[i].is_best ? "true" : "false", rows[i].is_best_whole ? "true" : "false");
    }
    strbuf_char(&b, ']');
    const qp_status status = finish(&b, err);
    strbuf_free(&b);
    return status;
}
