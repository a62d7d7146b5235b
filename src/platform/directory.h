#pragma once
/* platform/directory.h - creates a directory and its missing parents (on a new machine, ~/.local/share may be
 * missing). Any thread. */
#include <stdbool.h>

/* True if the directory exists now. Directories that it creates have mode 0700. False: errno says why. */
bool directory_make(const char *path);
