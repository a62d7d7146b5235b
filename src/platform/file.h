#pragma once
/* platform/file.h - a file that a command was given, whole. */
#include "base/buf.h"
#include "base/err.h"

/* Adds what is in it; "-" is stdin. ERR_NOT_FOUND, ERR_INVALID (it can not be read), ERR_LIMIT (more than out takes); the text begins with
 * its name. */
enum err file_read(const char *path, struct buf *out, struct error *e) must_use;
