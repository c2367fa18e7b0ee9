/* replay.c — stands in for libFuzzer where it is not at hand: runs a fuzz target over its seeds, then over each seed
 * cut short, with the bytes in a block of their own so that a sanitizer sees the first one too many. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { CUTS = 64 }; /* cuts of each seed, evenly spread */

static void run_exactly(const uint8_t *bytes, size_t count) {
    uint8_t *copy = malloc(count ? count : 1);
    if (!copy) exit(1);
    if (count) memcpy(copy, bytes, count);
    LLVMFuzzerTestOneInput(copy, count);
    free(copy);
}

static int run_file(const char *path) {
    static uint8_t bytes[16 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) return perror(path), 1;
    const size_t count = fread(bytes, 1, sizeof bytes, file);
    const int failed = ferror(file);
    fclose(file);
    if (failed) return perror(path), 1;
    printf("%s (%zu bytes)\n", path, count);
    fflush(stdout); /* so that the last name printed is the culprit */
    run_exactly(bytes, count);
    for (size_t i = 0; i < CUTS && i < count; i++) run_exactly(bytes, count * i / (count < CUTS ? count : CUTS));
    return 0;
}

int main(int argc, char **argv) {
    int n_files = 0, n_failed = 0;
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) return fprintf(stderr, "usage: %s FOLDER of seeds; it must exist\n", argv[0]), 2;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        n_failed += run_file(path);
        n_files++;
    }
    closedir(folder);
    printf("%d seeds\n", n_files);
    return n_failed || !n_files;
}
