#pragma once
/* core/flow/condition.h - conditions on the data of a run (`when`).
 *
 *   {"ref": "/steps/charge/output/amount", "op": "gt", "value": 1000}
 *   {"all": [condition, …]}   {"any": [condition, …]}   {"not": condition}
 *
 * | op | holds if |
 * |---|---|
 * | eq, ne | both are equal, or not: also objects and arrays, by content |
 * | lt le gt ge | both are numbers, or both are texts, in that order; texts are ordered by code points |
 * | in | the value is equal to an element of the given array |
 * | prefix | the value is a text that begins with the given text |
 * | exists | there is a value, which may be null; with "value": false, there is none |
 *
 * Nothing is converted. Integers and reals are one type and are compared exactly: 1 equals 1.0. Values of two types
 * are not equal, and no one of them is less. If the reference names no value, only `exists` can hold: `ne` does not.
 *
 * The cost is bounded: at most CONDITION_OPERATORS_MAX operators, and each looks at its own `value` once. */
#include "core/flow/reference.h"

enum { CONDITION_OPERATORS_MAX = 64, CONDITION_DEPTH_MAX = 8 };

struct condition;

/* Errors have the path within the condition as their field ("all[1].op"). The result lives in the arena and borrows
 * from v. */
enum err condition_read(json_t *v, struct arena *a, const struct condition **ret, struct error *e) must_use;

/* Evaluates from left to right and stops as soon as the result is certain. An error comes from the data. */
enum err condition_holds(const struct condition *c, const struct reference_data *d, bool *ret,
                         struct error *e) must_use;

/* Visits the references. A visitor's error gets its path within the condition. */
enum err condition_references(const struct condition *c, const struct reference_visitor *v, struct error *e) must_use;
