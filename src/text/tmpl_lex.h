/* tmpl_lex.h — template source -> tokens, with Jinja's rules for white space around tags already applied. */
#ifndef TEXT_TMPL_LEX_H
#define TEXT_TMPL_LEX_H

#include "tmpl_ast.h"

#define TOKENS(X)                                                                                                      \
    X(EOF, "end of template")                                                                                          \
    X(DATA, "template data / text")                                                                                    \
    X(BLOCK_BEGIN, "begin of statement block")                                                                         \
    X(BLOCK_END, "end of statement block")                                                                             \
    X(VAR_BEGIN, "begin of print statement")                                                                           \
    X(VAR_END, "end of print statement")                                                                               \
    X(NAME, "name")                                                                                                    \
    X(STRING, "string")                                                                                                \
    X(INTEGER, "integer")                                                                                              \
    X(FLOAT, "float")                                                                                                  \
    X(FLOORDIV, "//")                                                                                                  \
    X(POW, "**")                                                                                                       \
    X(EQ, "==")                                                                                                        \
    X(NE, "!=")                                                                                                        \
    X(GE, ">=")                                                                                                        \
    X(LE, "<=")                                                                                                        \
    X(GT, ">")                                                                                                         \
    X(LT, "<")                                                                                                         \
    X(ASSIGN, "=")                                                                                                     \
    X(ADD, "+")                                                                                                        \
    X(SUB, "-")                                                                                                        \
    X(DIV, "/")                                                                                                        \
    X(MUL, "*")                                                                                                        \
    X(MOD, "%")                                                                                                        \
    X(TILDE, "~")                                                                                                      \
    X(LBRACKET, "[")                                                                                                   \
    X(RBRACKET, "]")                                                                                                   \
    X(LPAREN, "(")                                                                                                     \
    X(RPAREN, ")")                                                                                                     \
    X(LBRACE, "{")                                                                                                     \
    X(RBRACE, "}")                                                                                                     \
    X(DOT, ".")                                                                                                        \
    X(COLON, ":")                                                                                                      \
    X(PIPE, "|")                                                                                                       \
    X(COMMA, ",")                                                                                                      \
    X(SEMICOLON, ";")

typedef enum token_kind {
#define X(name, text) T_##name,
    TOKENS(X)
#undef X
        T_COUNT
} token_kind;

typedef struct token {
    uint8_t kind;
    uint32_t at;
    span text; /* name, data, or the string with its escapes resolved */
    int64_t integer;
    double real;
} token;

/* How errors speak of a kind of token. */
const char *tmpl_token_name(token_kind kind);

/* *out lies in `memory` and ends with T_EOF. */
qp_status tmpl_lex(const tmpl_source *source, arena *memory, token **out, qp_error *err);

#endif
