#pragma once
/* cli/workflow/boxes.h - draws the graph of a workflow as boxes with lines between them. */
#include "cli/workflow/graph_text.h"

/* Appends the drawing. False: it is too wide, has too many steps, or its lines would overlap; then nothing is appended.
 * */
bool workflow_boxes_draw(const struct graph *g, size_t width, bool colours, struct arena *a, struct buf *out);
