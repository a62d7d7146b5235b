/* One lock over everything: a hit is a look into a map, and a miss reads a file of a few KiB once in the life of a
 * process. The cache holds one reference to each zone, whose own name is its key. Only names of files that parsed enter
 * it, so nobody can fill it with made-up ones. */
#include "platform/zoneinfo_system.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/map.h"

enum { ZONE_FILE_MAX = 1 << 20, NAMES_MAX = 4096, NAME_BYTES_MAX = 1 << 18, DEPTH_MAX = 4 };

/* What tells one tzdata from the next: the directory, the files every build of it has, and the regions, because a package
 * manager replaces file by file and may be seen in the middle of it. */
static const char *const watched[] = { ".",       "tzdata.zi", "zone.tab", "zone1970.tab", "Africa",
                                       "America", "Asia",      "Etc",      "Europe",       "Pacific" };

struct stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

/* Every zone's name, for suggestions. Empty until somebody errs. */
struct names {
    struct arena arena;
    struct str *v; /* sorted */
    size_t count;
};

struct zoneinfo_system {
    struct zoneinfo base;
    char *directory;
    pthread_mutex_t lock; /* over what follows */
    struct map zones;     /* name → struct tz */
    struct names names;
    struct stamp stamps[array_count(watched)];
    uint64_t generation;
};

static struct zoneinfo_system *self(struct zoneinfo *z)
{
    return container_of(z, struct zoneinfo_system, base);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* ---- the zones' names ---- */

static bool has_magic(int folder, const char *name)
{
    char magic[4];
    cleanup_with(close_fd) int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd >= 0 && read(fd, magic, sizeof magic) == (ssize_t)sizeof magic && memcmp(magic, "TZif", 4) == 0;
}

/* Trees that hold the zones over again, and names that mean another zone on another machine. */
static bool is_no_zone(const char *name)
{
    static const char *const others[] = { "posix", "right", "localtime", "posixrules" };
    for (size_t i = 0; i < array_count(others); i++)
        if (strcmp(name, others[i]) == 0)
            return true;
    return false;
}

static void add_name(struct names *names, struct str name)
{
    if (names->count < NAMES_MAX && arena_str(&names->arena, name, &names->v[names->count]))
        names->count++;
}

static void walk(struct names *names, int parent, const char *folder, const char *prefix, int depth);

/* prefix is "" or ends in '/'. */
static void visit(struct names *names, int folder, const char *entry, const char *prefix, int depth)
{
    char name[NAME_MAX + 1];
    struct stat st;
    int n = snprintf(name, sizeof name, "%s%s", prefix, entry);
    if (entry[0] == '.' || n >= (int)sizeof name - 1 || is_no_zone(name) || fstatat(folder, entry, &st, 0) != 0)
        return;
    if (S_ISREG(st.st_mode) && has_magic(folder, entry)) {
        add_name(names, str_from(name));
    } else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
        memcpy(name + n, "/", 2);
        walk(names, folder, entry, name, depth + 1);
    }
}

static void walk(struct names *names, int parent, const char *folder, const char *prefix, int depth)
{
    cleanup_with(close_fd) int fd = openat(parent, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries)
        return;
    for (struct dirent *entry; (entry = readdir(entries));)
        visit(names, fd, entry->d_name, prefix, depth);
    closedir(entries);
    fd = -1; /* the stream had taken it over */
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct str *)a)->p, ((const struct str *)b)->p);
}

static void forget_names(struct names *names)
{
    arena_release(&names->arena);
    free(names->v);
    names->v = NULL;
    names->count = 0;
}

/* An empty list is not kept: tzdata may be installed any moment. */
static void learn_names(struct zoneinfo_system *s)
{
    if (s->names.count)
        return;
    forget_names(&s->names);
    s->names.v = xcalloc(NAMES_MAX, sizeof *s->names.v);
    walk(&s->names, AT_FDCWD, s->directory, "", 1);
    if (s->names.count)
        qsort(s->names.v, s->names.count, sizeof *s->names.v, compare_names);
}

static struct str last_component(struct str name)
{
    size_t from = name.n;
    while (from > 0 && name.p[from - 1] != '/')
        from--;
    return str_sub(name, from, name.n);
}

/* How far apart two names are, SIZE_MAX if too far to be meant. The place alone may be meant too: "berlin", and
 * "Germany/Berlin"; that counts for a little less than a whole name just as far away. */
static size_t distance(struct str asked, struct str known)
{
    struct str place = last_component(asked);
    size_t whole = str_distance(asked, known), by_place = str_distance(place, last_component(known));
    whole = whole <= 1 + asked.n / 4 ? 2 * whole : SIZE_MAX;
    by_place = by_place <= 1 + place.n / 4 && place.n > 2 ? 2 * by_place + 1 : SIZE_MAX;
    return min_of(whole, by_place);
}

static const char *closest_name(const struct names *names, struct str asked)
{
    size_t best_distance = distance(asked, S("UTC")); /* known without a file */
    const char *best = best_distance == SIZE_MAX ? NULL : "UTC";
    for (size_t i = 0; i < names->count; i++) {
        size_t d = distance(asked, names->v[i]);
        if (d < best_distance) {
            best_distance = d;
            best = names->v[i].p;
        }
    }
    return best;
}

static enum err unknown_zone(struct zoneinfo_system *s, struct str name, struct error *e)
{
    learn_names(s);
    if (s->names.count == 0)
        return error_set(e, ERR_UNAVAILABLE, "no time zone data in %s: install the package tzdata", s->directory);
    const char *close = closest_name(&s->names, name);
    if (close)
        return error_field(e, "time_zone", "unknown time zone '" STR_FMT "'; did you mean %s?", STR_ARG(name), close);
    return error_field(e, "time_zone", "unknown time zone '" STR_FMT "'; use one such as Europe/Berlin or UTC",
                       STR_ARG(name));
}

static void system_names(struct zoneinfo *z, struct str prefix, struct buf *out)
{
    struct zoneinfo_system *s = self(z);
    pthread_mutex_lock(&s->lock);
    learn_names(s);
    for (size_t i = 0; i < s->names.count; i++)
        if (str_starts(s->names.v[i], prefix))
            buf_printf(out, STR_FMT "\n", STR_ARG(s->names.v[i]));
    pthread_mutex_unlock(&s->lock);
}

/* ---- reading a zone ---- */

/* The file's bytes, at most one more than a zone may have, up to size. */
static bool slurp(int fd, size_t size, char **ret, size_t *ret_n)
{
    cleanup_with(free_charp) char *data = xmalloc(size);
    size_t n = 0;
    for (ssize_t got; n < size && (got = read(fd, data + n, size - n)) != 0; n += (size_t)got)
        if (got < 0)
            return false;
    *ret = take(data);
    *ret_n = n;
    return true;
}

/* *ret stays NULL when there is no such file: a name nobody knows is no failure to read. */
static enum err read_file(const char *path, char **ret, size_t *ret_n, struct error *e)
{
    struct stat st;
    cleanup_with(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return ERR_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        return error_set(e, ERR_UNAVAILABLE, "open '%s': %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return ERR_OK;
    if (!slurp(fd, (size_t)min_of(st.st_size, (off_t)ZONE_FILE_MAX + 1), ret, ret_n))
        return error_set(e, ERR_UNAVAILABLE, "read '%s': %s", path, strerror(errno));
    return ERR_OK;
}

static enum err load(struct zoneinfo_system *s, struct str name, struct tz **ret, struct error *e)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/" STR_FMT, s->directory, STR_ARG(name)) >= (int)sizeof path)
        return error_set(e, ERR_UNAVAILABLE, "path of time zones is too long: %s", s->directory);
    cleanup_with(free_charp) char *data = NULL;
    size_t n = 0;
    enum err rc = read_file(path, &data, &n, e);
    if (rc)
        return rc;
    if (!data || !str_starts((struct str){ data, n }, S("TZif")))
        return unknown_zone(s, name, e);
    return tz_parse(name, (struct str){ data, n }, ret, e);
}

static enum err refuse_other_tree(struct str name, struct error *e)
{
    struct str bare = str_sub(name, 6, name.n); /* behind "right/" and "posix/" */
    return error_field(e, "time_zone", "'" STR_FMT "' is not offered; use " STR_FMT, STR_ARG(name), STR_ARG(bare));
}

static enum err get_locked(struct zoneinfo_system *s, struct str name, struct tz **ret, struct error *e)
{
    struct tz *z = map_get(&s->zones, name);
    if (!z) {
        enum err rc = load(s, name, &z, e);
        if (rc)
            return rc;
        map_put(&s->zones, str_from(tz_name(z)), z);
    }
    *ret = tz_ref(z);
    return ERR_OK;
}

static enum err system_get(struct zoneinfo *base, struct str name, struct tz **ret, struct error *e)
{
    struct zoneinfo_system *s = self(base);
    if (str_eq(name, S("UTC"))) {
        *ret = tz_utc();
        return ERR_OK;
    }
    if (str_starts(name, S("right/")) || str_starts(name, S("posix/")))
        return refuse_other_tree(name, e);
    pthread_mutex_lock(&s->lock);
    enum err rc = get_locked(s, name, ret, e);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* ---- noticing change ---- */

static void take_stamps(const struct zoneinfo_system *s, struct stamp ret[array_count(watched)])
{
    memset(ret, 0, array_count(watched) * sizeof *ret); /* padding too: stamps are compared as bytes */
    cleanup_with(close_fd) int folder = open(s->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; folder >= 0 && i < array_count(watched); i++) {
        struct stat st;
        if (fstatat(folder, watched[i], &st, 0) != 0)
            continue;
        ret[i].device = st.st_dev;
        ret[i].inode = st.st_ino;
        ret[i].size = st.st_size;
        ret[i].changed = st.st_mtim;
    }
}

static void forget_zones(struct zoneinfo_system *s)
{
    map_each (&s->zones, slot)
        tz_unref(slot->value);
    map_release(&s->zones);
    map_init(&s->zones, HASH_STABLE);
    forget_names(&s->names);
}

void zoneinfo_system_refresh(struct zoneinfo *z)
{
    struct zoneinfo_system *s = self(z);
    struct stamp now[array_count(watched)];
    take_stamps(s, now);
    pthread_mutex_lock(&s->lock);
    if (memcmp(now, s->stamps, sizeof now) != 0) {
        memcpy(s->stamps, now, sizeof now);
        forget_zones(s);
        s->generation++;
    }
    pthread_mutex_unlock(&s->lock);
}

static uint64_t system_generation(struct zoneinfo *z)
{
    struct zoneinfo_system *s = self(z);
    pthread_mutex_lock(&s->lock);
    uint64_t generation = s->generation;
    pthread_mutex_unlock(&s->lock);
    return generation;
}

/* ---- beginning and end ---- */

static void system_free(struct zoneinfo *z)
{
    struct zoneinfo_system *s = self(z);
    forget_zones(s);
    map_release(&s->zones);
    pthread_mutex_destroy(&s->lock);
    free(s->directory);
    free(s);
}

static const struct zoneinfo_ops system_ops = {
    .get = system_get,
    .generation = system_generation,
    .names = system_names,
    .free = system_free,
};

struct zoneinfo *zoneinfo_system_new(const char *directory)
{
    const char *chosen = directory ? directory : getenv("TZDIR");
    struct zoneinfo_system *s = xnew(*s);
    s->base.ops = &system_ops;
    s->directory = xstrdup(chosen && chosen[0] ? chosen : "/usr/share/zoneinfo");
    s->generation = 1;
    pthread_mutex_init(&s->lock, NULL);
    map_init(&s->zones, HASH_STABLE);
    arena_init(&s->names.arena, NAME_BYTES_MAX);
    take_stamps(s, s->stamps);
    return &s->base;
}
