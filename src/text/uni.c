/* uni.c — lookups in the generated character tables. */
#include "uni.h"
#include <string.h>

enum { HANGUL_L = 0x1100, HANGUL_V = 0x1161, HANGUL_T = 0x11A7, HANGUL_S = 0xAC00, N_L = 19, N_V = 21, N_T = 28 };

/* The row of `key` in a sorted table of rows of `width` numbers, -1 if there is none. */
static int find_row(const uint32_t *table, int n, int width, uint32_t key) {
    int low = 0, high = n;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (table[mid * width] < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && table[low * width] == key ? low : -1;
}

static int copy_mapping(uint32_t packed, uint32_t *out) {
    const int n = (int)(packed & 255);
    for (int i = 0; i < n; i++) out[i] = uni_pool[(packed >> 8) + (uint32_t)i];
    return n;
}

int uni_script_of(uint32_t c) {
    int low = 0, high = uni_n_scripts;
    while (high - low > 1) {
        const int mid = (low + high) / 2;
        if (uni_script_start[mid] <= c)
            low = mid;
        else
            high = mid;
    }
    return uni_script[low];
}

int uni_lower_of(uint32_t c, uint32_t out[3]) {
    if (c < 0x80) return out[0] = c >= 'A' && c <= 'Z' ? c + 32 : c, 1;
    const int row = find_row(uni_lower, uni_n_lower, 2, c);
    if (row < 0) return out[0] = c, 1;
    return copy_mapping(uni_lower[row * 2 + 1], out);
}

int uni_decompose(uint32_t c, bool compatible, uint32_t out[18]) {
    if (c < 0xA0) return out[0] = c, 1;
    if (c >= HANGUL_S && c < HANGUL_S + N_L * N_V * N_T) {
        const uint32_t s = c - HANGUL_S;
        out[0] = HANGUL_L + s / (N_V * N_T);
        out[1] = HANGUL_V + s % (N_V * N_T) / N_T;
        out[2] = HANGUL_T + s % N_T;
        return s % N_T ? 3 : 2;
    }
    const uint32_t *table = compatible ? uni_nfkd : uni_nfd;
    const int row = find_row(table, compatible ? uni_n_nfkd : uni_n_nfd, 2, c);
    if (row < 0) return out[0] = c, 1;
    return copy_mapping(table[row * 2 + 1], out);
}

uint32_t uni_composed(uint32_t first, uint32_t second) {
    if (first >= HANGUL_L && first < HANGUL_L + N_L && second >= HANGUL_V && second < HANGUL_V + N_V)
        return HANGUL_S + ((first - HANGUL_L) * N_V + (second - HANGUL_V)) * N_T;
    if (first >= HANGUL_S && first < HANGUL_S + N_L * N_V * N_T && (first - HANGUL_S) % N_T == 0 && second > HANGUL_T &&
        second < HANGUL_T + N_T)
        return first + (second - HANGUL_T);
    int low = 0, high = uni_n_compose;
    while (low < high) {
        const int mid = (low + high) / 2;
        const uint32_t *row = uni_compose + (ptrdiff_t)mid * 3;
        if (row[0] < first || (row[0] == first && row[1] < second))
            low = mid + 1;
        else
            high = mid;
    }
    const uint32_t *row = uni_compose + (ptrdiff_t)low * 3;
    return low < uni_n_compose && row[0] == first && row[1] == second ? row[2] : 0;
}

int uni_class_of(uint32_t c) {
    if (c < 0x300) return 0;
    int low = 0, high = uni_n_class;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (uni_class[mid] >> 8 < c)
            low = mid + 1;
        else
            high = mid;
    }
    return low < uni_n_class && uni_class[low] >> 8 == c ? (int)(uni_class[low] & 255) : 0;
}

static const struct {
    const char *name;
    uint64_t mask;
} properties[] = {
    {"L", UNI_LETTER},
    {"Letter", UNI_LETTER},
    {"M", UNI_COMBINING},
    {"N", UNI_NUMBER},
    {"P", UNI_P},
    {"S", UNI_S},
    {"Lu", UNI_BIT(Lu)},
    {"Ll", UNI_BIT(Ll)},
    {"Lt", UNI_BIT(Lt)},
    {"Lm", UNI_BIT(Lm)},
    {"Lo", UNI_BIT(Lo)},
    {"Mn", UNI_BIT(Mn)},
    {"Mc", UNI_BIT(Mc)},
    {"Me", UNI_BIT(Me)},
    {"Nd", UNI_BIT(Nd)},
    {"Nl", UNI_BIT(Nl)},
    {"No", UNI_BIT(No)},
    {"Pc", UNI_BIT(Pc)},
    {"Pd", UNI_BIT(Pd)},
    {"Pe", UNI_BIT(Pe)},
    {"Pf", UNI_BIT(Pf)},
    {"Pi", UNI_BIT(Pi)},
    {"Po", UNI_BIT(Po)},
    {"Ps", UNI_BIT(Ps)},
    {"Sc", UNI_BIT(Sc)},
    {"Sk", UNI_BIT(Sk)},
    {"Sm", UNI_BIT(Sm)},
    {"So", UNI_BIT(So)},
    {"Z", UNI_BIT(Zs) | UNI_BIT(Zl) | UNI_BIT(Zp)},
    {"Zs", UNI_BIT(Zs)},
    {"Zl", UNI_BIT(Zl)},
    {"Zp", UNI_BIT(Zp)},
    {"Cc", UNI_BIT(Cc)},
    {"Cf", UNI_BIT(Cf)},
    {"Co", UNI_BIT(Co)},
    {"Alphabetic", UNI_ALPHABETIC},
};

uint64_t uni_property(span name) {
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (span_is(name, properties[i].name)) return properties[i].mask;
    return 0;
}
