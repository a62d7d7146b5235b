#pragma once
/* platform/directory.h - makes a directory, with those above it: on a fresh machine ~/.local/share may be missing too. */
#include <stdbool.h>

bool directory_make(
    const char *path); /* true if it is there, for its owner alone if it was made; false: errno says why */
