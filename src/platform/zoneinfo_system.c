/* One lock protects everything: a hit is a map lookup, and a miss reads a file of a few KiB once per zone. The cache
 * holds one reference to each zone; the zone's name is the key. Only names of files that parsed enter the cache, so
 * made-up names cannot fill it. */
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
#include "base/sentence.h"

enum { ZONE_FILE_MAX = 1 << 20, NAMES_MAX = 4096, NAME_BYTES_MAX = 1 << 18, DEPTH_MAX = 4 };

/* All zone names, for suggestions. Loaded at the first unknown name. */
struct zone_names {
    struct arena arena;
    struct str *v; /* sorted */
    size_t count;
};

struct zoneinfo_system {
    struct zoneinfo base;
    char *directory;
    pthread_mutex_t lock; /* protects the next members */
    struct map zones;     /* name → struct tz */
    struct zone_names names;
};

static struct zoneinfo_system *zoneinfo_system_of(struct zoneinfo *z)
{
    return container_of(z, struct zoneinfo_system, base);
}

static void zoneinfo_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* ---- zone names ---- */

static bool zoneinfo_is_tzif(int folder, const char *name)
{
    char magic[4];
    cleanup_with(zoneinfo_close_fd) int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd >= 0 && read(fd, magic, sizeof magic) == (ssize_t)sizeof magic && memcmp(magic, "TZif", 4) == 0;
}

/* Folders that repeat all zones, and names that mean different zones on different machines. */
static bool zoneinfo_is_excluded(struct str name)
{
    static const char *const others[] = { "posix", "right", "localtime", "posixrules", "Factory" };
    for (size_t i = 0; i < array_count(others); i++)
        if (str_eq(name, str_from(others[i])))
            return true;
    return false;
}

static void zoneinfo_add_name(struct zone_names *names, struct str name)
{
    if (names->count < NAMES_MAX && arena_str(&names->arena, name, &names->v[names->count]))
        names->count++;
}

static void zoneinfo_walk_folder(struct zone_names *names, int parent, const char *folder, const char *prefix,
                                 int depth);

/* prefix is "" or ends in '/'. */
static void zoneinfo_visit_entry(struct zone_names *names, int folder, const char *entry, const char *prefix, int depth)
{
    char name[NAME_MAX + 1];
    struct stat st;
    int n = snprintf(name, sizeof name, "%s%s", prefix, entry);
    if (entry[0] == '.' || n >= (int)sizeof name - 1 || zoneinfo_is_excluded(str_from(name)) ||
        fstatat(folder, entry, &st, 0) != 0)
        return;
    if (S_ISREG(st.st_mode) && zoneinfo_is_tzif(folder, entry)) {
        zoneinfo_add_name(names, str_from(name));
    } else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
        memcpy(name + n, "/", 2);
        zoneinfo_walk_folder(names, folder, entry, name, depth + 1);
    }
}

static void zoneinfo_walk_folder(struct zone_names *names, int parent, const char *folder, const char *prefix,
                                 int depth)
{
    cleanup_with(zoneinfo_close_fd) int fd = openat(parent, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries)
        return;
    for (struct dirent *entry; (entry = readdir(entries));)
        zoneinfo_visit_entry(names, fd, entry->d_name, prefix, depth);
    closedir(entries);
    fd = -1; /* closedir has closed it */
}

static int zoneinfo_compare_names(const void *a, const void *b)
{
    return strcmp(((const struct str *)a)->p, ((const struct str *)b)->p);
}

static void zoneinfo_clear_names(struct zone_names *names)
{
    arena_release(&names->arena);
    free(names->v);
    names->v = NULL;
    names->count = 0;
}

/* An empty list is not cached, because tzdata may be installed at any time. */
static void zoneinfo_load_names(struct zoneinfo_system *s)
{
    if (s->names.count)
        return;
    zoneinfo_clear_names(&s->names);
    s->names.v = xcalloc(NAMES_MAX, sizeof *s->names.v);
    zoneinfo_walk_folder(&s->names, AT_FDCWD, s->directory, "", 1);
    if (s->names.count)
        qsort(s->names.v, s->names.count, sizeof *s->names.v, zoneinfo_compare_names);
}

static struct str zoneinfo_last_component(struct str name)
{
    size_t from = name.n;
    while (from > 0 && name.p[from - 1] != '/')
        from--;
    return str_sub(name, from, name.n);
}

/* Distance between two names; SIZE_MAX if they are too different. The last components decide: "berlin" and
 * "Germany/Berlin" mean Europe/Berlin, but "Europe/Germany" does not. A name of three letters is right or wrong: PST is
 * not EST. An equally close match counts for more if the rest of the name is close, too. */
static size_t zoneinfo_distance(struct str asked, struct str known)
{
    struct str place = zoneinfo_last_component(asked), there = zoneinfo_last_component(known);
    size_t by_place, whole;
    if (!suggest_is_close(place, there, &by_place) || (place.n <= 3 && by_place))
        return SIZE_MAX;
    return suggest_is_close(asked, known, &whole) ? 2 * whole : 2 * by_place + 1;
}

static const char *zoneinfo_closest_name(const struct zone_names *names, struct str asked)
{
    size_t best_distance = zoneinfo_distance(asked, S("UTC")); /* built in */
    const char *best = best_distance == SIZE_MAX ? NULL : "UTC";
    for (size_t i = 0; i < names->count; i++) {
        size_t d = zoneinfo_distance(asked, names->v[i]);
        if (d < best_distance) {
            best_distance = d;
            best = names->v[i].p;
        }
    }
    return best;
}

static enum err zoneinfo_refuse_unknown(struct zoneinfo_system *s, struct str name, struct error *e)
{
    zoneinfo_load_names(s);
    if (s->names.count == 0)
        return error_set(e, ERR_UNAVAILABLE, "no time zone data in %s: install the package tzdata", s->directory);
    const char *close = zoneinfo_closest_name(&s->names, name);
    if (close)
        return error_field(e, "time_zone", "unknown time zone '" STR_FMT "'; did you mean %s?", STR_ARG(name), close);
    return error_field(e, "time_zone", "unknown time zone '" STR_FMT "'; use one such as Europe/Berlin or UTC",
                       STR_ARG(name));
}

static void zoneinfo_system_names(struct zoneinfo *z, struct str prefix, struct buf *out)
{
    struct zoneinfo_system *s = zoneinfo_system_of(z);
    pthread_mutex_lock(&s->lock);
    zoneinfo_load_names(s);
    for (size_t i = 0; i < s->names.count; i++)
        if (str_starts(s->names.v[i], prefix))
            buf_printf(out, STR_FMT "\n", STR_ARG(s->names.v[i]));
    pthread_mutex_unlock(&s->lock);
}

/* ---- reading a zone ---- */

/* Reads at most `size` bytes of the file. */
static bool zoneinfo_read_fd(int fd, size_t size, char **ret, size_t *ret_n)
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

/* *ret stays NULL if there is no such file: an unknown name is not a read error. */
static enum err zoneinfo_read_file(const char *path, char **ret, size_t *ret_n, struct error *e)
{
    struct stat st;
    cleanup_with(zoneinfo_close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return ERR_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        return error_set(e, ERR_UNAVAILABLE, "open '%s': %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return ERR_OK;
    if (!zoneinfo_read_fd(fd, (size_t)min_of(st.st_size, (off_t)ZONE_FILE_MAX + 1), ret, ret_n))
        return error_set(e, ERR_UNAVAILABLE, "read '%s': %s", path, strerror(errno));
    return ERR_OK;
}

static enum err zoneinfo_load_zone(struct zoneinfo_system *s, struct str name, struct tz **ret, struct error *e)
{
    char path[PATH_MAX];
    if (zoneinfo_is_excluded(name))
        return zoneinfo_refuse_unknown(s, name, e);
    if (snprintf(path, sizeof path, "%s/" STR_FMT, s->directory, STR_ARG(name)) >= (int)sizeof path)
        return error_set(e, ERR_UNAVAILABLE, "path of time zones is too long: %s", s->directory);
    cleanup_with(free_charp) char *data = NULL;
    size_t n = 0;
    enum err rc = zoneinfo_read_file(path, &data, &n, e);
    if (rc)
        return rc;
    if (!data || !str_starts((struct str){ data, n }, S("TZif")))
        return zoneinfo_refuse_unknown(s, name, e);
    return tz_parse(name, (struct str){ data, n }, ret, e);
}

static enum err zoneinfo_refuse_other_tree(struct str name, struct error *e)
{
    struct str bare = str_sub(name, 6, name.n); /* after "right/" or "posix/" */
    return error_field(e, "time_zone", "'" STR_FMT "' is not supported; use " STR_FMT, STR_ARG(name), STR_ARG(bare));
}

static enum err zoneinfo_get_locked(struct zoneinfo_system *s, struct str name, struct tz **ret, struct error *e)
{
    struct tz *z = map_get(&s->zones, name);
    if (!z) {
        enum err rc = zoneinfo_load_zone(s, name, &z, e);
        if (rc)
            return rc;
        map_put(&s->zones, str_from(tz_name(z)), z);
    }
    *ret = tz_ref(z);
    return ERR_OK;
}

static enum err zoneinfo_system_get(struct zoneinfo *base, struct str name, struct tz **ret, struct error *e)
{
    struct zoneinfo_system *s = zoneinfo_system_of(base);
    if (str_eq(name, S("UTC"))) {
        *ret = tz_utc();
        return ERR_OK;
    }
    if (str_starts(name, S("right/")) || str_starts(name, S("posix/")))
        return zoneinfo_refuse_other_tree(name, e);
    pthread_mutex_lock(&s->lock);
    enum err rc = zoneinfo_get_locked(s, name, ret, e);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* ---- construction and destruction ---- */

static void zoneinfo_system_free(struct zoneinfo *z)
{
    struct zoneinfo_system *s = zoneinfo_system_of(z);
    map_each (&s->zones, slot)
        tz_unref(slot->value);
    map_release(&s->zones);
    zoneinfo_clear_names(&s->names);
    pthread_mutex_destroy(&s->lock);
    free(s->directory);
    free(s);
}

static const struct zoneinfo_ops zoneinfo_system_ops = {
    .get = zoneinfo_system_get,
    .names = zoneinfo_system_names,
    .free = zoneinfo_system_free,
};

struct zoneinfo *zoneinfo_system_new(const char *directory)
{
    const char *chosen = directory ? directory : getenv("TZDIR");
    struct zoneinfo_system *s = xnew(*s);
    s->base.ops = &zoneinfo_system_ops;
    s->directory = xstrdup(chosen && chosen[0] ? chosen : "/usr/share/zoneinfo");
    pthread_mutex_init(&s->lock, NULL);
    map_init(&s->zones, HASH_STABLE);
    arena_init(&s->names.arena, NAME_BYTES_MAX);
    return &s->base;
}
