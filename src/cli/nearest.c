/* nearest.c — edit distance with swaps (Damerau's, restricted to neighbours). */
#include "nearest.h"
#include <string.h>

enum { LONGEST = 63, CHANGE = 10, PREFIX = 5 };

static int least(int a, int b) { return a < b ? a : b; }

int nearest_cost(const char *typed, const char *known) {
    const size_t n = strnlen(typed, LONGEST), m = strnlen(known, LONGEST);
    if (n > 1 && n < m && !strncmp(typed, known, n)) return PREFIX + (int)(m - n) / 8;
    int rows[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++) rows[0][j] = (int)j * CHANGE;
    for (size_t i = 1; i <= n; i++) {
        int *now = rows[i % 3];
        const int *before = rows[(i - 1) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = (int)i * CHANGE;
        for (size_t j = 1; j <= m; j++) {
            now[j] = before[j - 1] + (typed[i - 1] == known[j - 1] ? 0 : CHANGE);
            now[j] = least(now[j], least(before[j], now[j - 1]) + CHANGE);
            if (i > 1 && j > 1 && typed[i - 1] == known[j - 2] && typed[i - 2] == known[j - 1])
                now[j] = least(now[j], earlier[j - 2] + CHANGE);
        }
    }
    return rows[n % 3][m];
}
