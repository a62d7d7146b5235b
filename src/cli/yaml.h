#pragma once
/* cli/yaml.h - converts YAML, which people like to write, to JSON, which the API takes.
 *
 * The JSON has each value on the line on which the YAML has it: whoever finds an error in the JSON knows the line of
 * the file. Scalars are those of the core schema of YAML 1.2: null, true, false and numbers, written without quotes;
 * all else is text, also `no`, `on`, 12:30 and 2026-02-10. Numbers keep their digits.
 *
 * Refused, with the line: keys that occur twice, tags, merge keys, a second document, .inf and .nan, numbers with
 * leading zeros (YAML 1.1 reads them as octal, YAML 1.2 as decimal). Aliases are expanded; the limit is the size of the
 * JSON, so a few lines cannot expand to gigabytes. */
#include "base/buf.h"

/* Appends the JSON to ret; its maximum is the limit. Fails with ERR_INVALID or ERR_LIMIT; *ret_line is then the line
 * that is wrong, from 1 on, or 0 if it is none in particular. Without libyaml, fails with ERR_INVALID. */
enum err yaml_to_json(struct str text, struct buf *ret, size_t *ret_line, struct error *e) must_use;
