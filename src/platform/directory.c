#include "platform/directory.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

enum { OWNER_ALONE = 0700 };

bool directory_make(const char *path)
{
    if (mkdir(path, OWNER_ALONE) == 0 || errno == EEXIST)
        return true;
    cleanup_with(free_charp) char *part = xstrdup(path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, OWNER_ALONE) && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return mkdir(path, OWNER_ALONE) == 0 || errno == EEXIST;
}
