/* Runs a fuzz target over the files of a folder and reports each as a test (TAP), so that inputs that a fuzzer once
 * found stay fixed. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    static uint8_t data[1 << 20];
    size_t n = fread(data, 1, sizeof data, f);
    fclose(f);
    /* an allocation of the exact size, so that a sanitizer detects a read past its end */
    uint8_t *exact = malloc(n ? n : 1);
    for (size_t i = 0; i < n; i++)
        exact[i] = data[i];
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

int main(int argc, char **argv)
{
    struct dirent **names = NULL;
    int count = argc == 2 ? scandir(argv[1], &names, NULL, alphasort) : -1;
    if (count < 0) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int ran = 0;
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], names[i]->d_name);
        if (names[i]->d_name[0] != '.') {
            run_file(path);
            printf("ok %d - %s\n", ++ran, names[i]->d_name);
            fflush(stdout);
        }
        free(names[i]);
    }
    free(names);
    printf("1..%d\n", ran);
    return ran ? 0 : 1;
}
