#pragma once
/* core/task/execution_json.h - an execution as JSON, the same in the API and in archives. */
#include "base/json/jsonw.h"
#include "core/task/task.h"

void execution_to_json(struct jw *w, const struct execution *x);
void execution_facts(struct jw *w, const struct execution *x);   /* the same without the output */
void execution_members(struct jw *w, const struct execution *x); /* within an object that the caller opened */
