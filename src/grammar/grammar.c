/* grammar.c — compiling a source into a grammar that many matchers share. */
#include "grammar_impl.h"

static const grammar_limits defaults = {
    .source_bytes = 4 << 20,
    .compile_steps = 20000000,
    .states = 250000,
    .engine_bytes = (size_t)256 << 20,
    .mask_bytes = (size_t)64 << 20,
    .mask_steps = 2000000,
    .row_items = 20000,
    .head_sets = 4096,
};

static void fill_limits(grammar_limits *l) {
    if (!l->source_bytes) l->source_bytes = defaults.source_bytes;
    if (!l->compile_steps) l->compile_steps = defaults.compile_steps;
    if (!l->states) l->states = defaults.states;
    if (!l->engine_bytes) l->engine_bytes = defaults.engine_bytes;
    if (!l->mask_bytes) l->mask_bytes = defaults.mask_bytes;
    if (!l->mask_steps) l->mask_steps = defaults.mask_steps;
    if (!l->row_items) l->row_items = defaults.row_items;
    if (!l->head_sets) l->head_sets = defaults.head_sets;
    if (!l->ir.regex.steps) l->ir.regex.steps = l->compile_steps;
}

static void close_grammar(grammar *g) {
    rows_close(&g->parser);
    lexer_close(&g->automaton);
    cfg_free(&g->rules);
    mask_cache_close(&g->masks);
    mem_free(g->stack.at);
    head_sets_close(&g->sets);
    mem_free(g->tails);
    trie_free(g->vocabulary);
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
}

static qp_status open_engine(grammar *g, ir *source, qp_error *err) {
    ERR_TRY(ir_verdict(source, err));
    ERR_TRY(cfg_build(&g->rules, source, err));
    ERR_TRY(lexer_open(&g->automaton, &g->rules, ir_pool(source), g->limits.states, g->limits.engine_bytes, err));
    return rows_open(&g->parser, &g->rules, &g->automaton, g->limits.row_items, g->limits.engine_bytes, err);
}

qp_status grammar_from_ir(grammar **out, trie *t, ir *source, const grammar_limits *limits, qp_error *err) {
    *out = NULL;
    grammar *g = MEM_NEW(grammar);
    if (!g) return err_no_memory(err, sizeof *g, "grammar");
    if (limits) g->limits = *limits;
    fill_limits(&g->limits);
    g->vocabulary = trie_share(t);
    atomic_init(&g->shares, 1);
    pthread_mutex_init(&g->lock, NULL);
    const qp_status status = open_engine(g, source, err);
    if (status != QP_OK) {
        close_grammar(g);
        return status;
    }
    rx_pool_refuel(ir_pool(source), g->limits.mask_steps);
    g->limits.ir.regex.stop = (rx_stop){NULL, NULL};
    g->source = source;
    *out = g;
    return QP_OK;
}

static qp_status lower(ir *source, const grammar_kind *kind, span text, const ir_options *options, qp_error *err) {
    static const ir_options plain = {.whitespace = NULL};
    ir_sym start = IR_NOTHING;
    ERR_TRY(kind->lower(source, &start, text, options ? options : &plain, err));
    ir_start(source, start);
    return ir_verdict(source, err);
}

qp_status grammar_compile(grammar **out, trie *t, const char *kind, span text, const ir_options *options,
                          const grammar_limits *limits, ir **report, qp_error *err) {
    *out = NULL;
    if (report) *report = NULL;
    grammar_limits all = limits ? *limits : (grammar_limits){.states = 0};
    fill_limits(&all);
    const grammar_kind *front = grammar_kind_find(kind);
    if (!front) return err_set(err, QP_BAD_ARGUMENT, 0, "constraint: no kind \"%.40s\"", kind);
    if (text.bytes > all.source_bytes)
        return err_set(err, QP_TOO_LARGE, 0, "constraint: source of %zu bytes, at most %zu", text.bytes,
                       all.source_bytes);
    ir *source;
    ERR_TRY(ir_new(&source, &all.ir, err));
    qp_status status = lower(source, front, text, options, err);
    if (status == QP_OK) status = grammar_from_ir(out, t, source, &all, err);
    if (status != QP_OK && report)
        *report = source;
    else if (status != QP_OK)
        ir_free(source);
    return status;
}

const ir *grammar_ir(const grammar *g) { return g->source; }

grammar *grammar_share(grammar *g) {
    atomic_fetch_add_explicit(&g->shares, 1, memory_order_relaxed);
    return g;
}

void grammar_free(grammar *g) {
    if (!g || atomic_fetch_sub_explicit(&g->shares, 1, memory_order_acq_rel) > 1) return;
    ir *source = g->source;
    close_grammar(g);
    ir_free(source);
}

const trie *grammar_vocabulary(const grammar *g) { return g->vocabulary; }
