#include "platform/last_fire.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

enum { BOOT_MAX = 40, MAGIC = 0x62656c66 };

/* The file. The boot's id says whether the machine has restarted since. */
struct last_fire_page {
    uint32_t magic;
    char boot[BOOT_MAX];
    int64_t fired_ms;
};

struct last_fire {
    struct last_fire_page *page;
};

static bool last_fire_read_boot(char ret[BOOT_MAX])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, BOOT_MAX - 1);
    if (fd >= 0)
        close(fd);
    return n > 0;
}

static struct last_fire_page *last_fire_map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    void *page = MAP_FAILED;
    if (ftruncate(fd, sizeof(struct last_fire_page)) == 0)
        page = mmap(NULL, sizeof(struct last_fire_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return page == MAP_FAILED ? NULL : page;
}

struct last_fire *last_fire_open(const char *path, int64_t *ret_before_ms)
{
    char boot[BOOT_MAX] = { 0 };
    struct last_fire_page *page = last_fire_read_boot(boot) ? last_fire_map(path) : NULL;
    *ret_before_ms = INT64_MAX;
    if (!page)
        return NULL;
    if (page->magic == MAGIC && memcmp(page->boot, boot, BOOT_MAX) == 0)
        *ret_before_ms = page->fired_ms;
    memcpy(page->boot, boot, BOOT_MAX);
    page->magic = MAGIC;
    struct last_fire *f = xnew(*f);
    f->page = page;
    return f;
}

void last_fire_close(struct last_fire *f)
{
    if (!f)
        return;
    munmap(f->page, sizeof *f->page);
    free(f);
}

/* It only rises: if the clock was set back, tasks of the time before may have fired. */
void last_fire_note(struct last_fire *f, int64_t now_ms)
{
    if (f && now_ms > f->page->fired_ms)
        __atomic_store_n(&f->page->fired_ms, now_ms, __ATOMIC_RELEASE);
}
