/* The usual way to draw layers: an edge over several layers gets a thin box in each layer between, boxes are sorted by
 * the mean place of their neighbours, each box goes as close as it can below the middle of its parents, and the lines
 * between two layers run in rows ("tracks"), one for each parent whose line is not straight. */
#include "cli/workflow/boxes.h"

#include <stdlib.h>

#include "cli/table.h"

enum { STEPS_MAX = 64, BOXES_MAX = 512, LAYERS_MAX = 64, WIDTH_MAX = 400, EDGES_MAX = 256, TRACKS_MAX = 24 };
enum { SWEEPS = 4, GAP = 2, LABEL_MAX = 40, UP = 1, DOWN = 2, LEFT = 4, RIGHT = 8, NO_TRACK = -1 };

struct box {
    uint32_t step;
    bool is_thin; /* a line of this step that passes the layer */
    int width, centre;
    double key; /* for sorting */
    char label[4 * LABEL_MAX + 4];
    const char *colour;
};

struct box_layer {
    struct box *v[BOXES_MAX];
    int n;
};

struct cell {
    char text[8];
    const char *colour;
};

struct drawing {
    const struct graph *g;
    struct box boxes[BOXES_MAX];
    size_t box_count;
    struct box *at[STEPS_MAX][LAYERS_MAX]; /* of a step in a layer: itself, or its line; NULL: neither */
    struct box_layer layers[LAYERS_MAX];
    int width;
    bool colours;
    struct buf *out;
};

/* ---- layers ---- */

static void boxes_write_label(struct box *b, const struct graph_step *s)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, sizeof b->label - 1);
    if (s->status.n)
        buf_printf(&text, "%s ", workflow_status_look(s->status)->sign);
    table_plain_text(s->name, LABEL_MAX - 2, &text);
    size_t used = str_utf8_count(buf_str(&text));
    if (s->note.n && used + s->note.n + 3 <= LABEL_MAX)
        buf_printf(&text, " (" STR_FMT ")", STR_ARG(s->note));
    snprintf(b->label, sizeof b->label, "%s", buf_cstr(&text));
    b->width = (int)str_utf8_count(buf_str(&text)) + 4;
    b->width += b->width % 2 == 0; /* so that it has a middle */
}

static struct box *boxes_add(struct drawing *d, uint32_t step, uint32_t layer, bool is_thin)
{
    if (d->box_count == BOXES_MAX)
        return NULL;
    struct box *b = &d->boxes[d->box_count++];
    const struct graph_step *s = &d->g->v[step];
    *b = (struct box){ .step = step, .is_thin = is_thin, .width = 1 };
    if (!is_thin)
        boxes_write_label(b, s);
    if (!is_thin && s->status.n)
        b->colour = workflow_status_look(s->status)->colour;
    d->at[step][layer] = b;
    d->layers[layer].v[d->layers[layer].n++] = b;
    return b;
}

/* Adds the boxes of the steps and the thin ones of their long edges. */
static bool boxes_add_all(struct drawing *d)
{
    const struct graph *g = d->g;
    for (uint32_t i = 0; i < g->n; i++)
        if (!boxes_add(d, i, g->v[i].layer, false))
            return false;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->v[i].n; k++)
            for (uint32_t l = g->v[g->v[i].in[k].parent].layer + 1; l < g->v[i].layer; l++)
                if (!d->at[g->v[i].in[k].parent][l] && !boxes_add(d, g->v[i].in[k].parent, l, true))
                    return false;
    return true;
}

static bool boxes_is_child(const struct graph *g, uint32_t child, uint32_t parent)
{
    for (uint32_t k = 0; k < g->v[child].n; k++)
        if (g->v[child].in[k].parent == parent)
            return true;
    return false;
}

/* Whether a line goes from this box to that one in the next layer. */
static bool boxes_are_joined(const struct drawing *d, const struct box *from, const struct box *to)
{
    return to->is_thin ? to->step == from->step : boxes_is_child(d->g, to->step, from->step);
}

/* ---- order and places ---- */

static void boxes_sort(struct box_layer *l)
{
    for (int i = 1; i < l->n; i++) {
        struct box *b = l->v[i];
        int k = i;
        for (; k > 0 && l->v[k - 1]->key > b->key; k--)
            l->v[k] = l->v[k - 1];
        l->v[k] = b;
    }
}

/* Sorts a layer by the mean place of the neighbours in another one; is_below: that is the next layer. */
static void boxes_sort_by(struct drawing *d, struct box_layer *l, const struct box_layer *other, bool is_below)
{
    for (int i = 0; i < l->n; i++) {
        double sum = 0;
        int n = 0;
        for (int k = 0; k < other->n; k++) {
            bool joined =
                is_below ? boxes_are_joined(d, l->v[i], other->v[k]) : boxes_are_joined(d, other->v[k], l->v[i]);
            sum += joined ? (double)k / other->n : 0;
            n += joined;
        }
        l->v[i]->key = n ? sum / n : (double)i / l->n;
    }
    boxes_sort(l);
}

static void boxes_order(struct drawing *d)
{
    int last = (int)d->g->layers - 1;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        for (int l = 1; l <= last; l++)
            boxes_sort_by(d, &d->layers[l], &d->layers[l - 1], false);
        for (int l = last - 1; l >= 0 && sweep + 1 < SWEEPS; l--)
            boxes_sort_by(d, &d->layers[l], &d->layers[l + 1], true);
    }
}

/* The least distance between the middles of two neighbours. */
static int boxes_distance(const struct box *left, const struct box *right)
{
    return left->width / 2 + GAP + 1 + right->width / 2;
}

/* Where the middle of the box should be: below the middle of its parents. */
static int boxes_wish(const struct drawing *d, const struct box *b, const struct box_layer *above)
{
    int sum = 0, n = 0;
    for (int k = 0; above && k < above->n; k++) {
        if (!boxes_are_joined(d, above->v[k], b))
            continue;
        sum += above->v[k]->centre;
        n++;
    }
    return n ? sum / n : 0;
}

/* The mean of two placings, one filled from the left and one from the right, keeps the distances of both. */
static void boxes_place_layer(struct drawing *d, struct box_layer *l, const struct box_layer *above)
{
    int left[BOXES_MAX], right[BOXES_MAX];
    for (int i = 0; i < l->n; i++)
        left[i] = right[i] = boxes_wish(d, l->v[i], above);
    for (int i = 1; i < l->n; i++)
        left[i] = max_of(left[i], left[i - 1] + boxes_distance(l->v[i - 1], l->v[i]));
    for (int i = l->n - 2; i >= 0; i--)
        right[i] = min_of(right[i], right[i + 1] - boxes_distance(l->v[i], l->v[i + 1]));
    for (int i = 0; i < l->n; i++)
        l->v[i]->centre = (left[i] + right[i]) / 2 - ((left[i] + right[i]) % 2 < 0);
}

static void boxes_place(struct drawing *d)
{
    int least = INT32_MAX, most = INT32_MIN;
    for (uint32_t l = 0; l < d->g->layers; l++)
        boxes_place_layer(d, &d->layers[l], l ? &d->layers[l - 1] : NULL);
    for (size_t i = 0; i < d->box_count; i++) {
        least = min_of(least, d->boxes[i].centre - d->boxes[i].width / 2);
        most = max_of(most, d->boxes[i].centre + d->boxes[i].width / 2);
    }
    for (size_t i = 0; i < d->box_count; i++)
        d->boxes[i].centre -= least;
    d->width = most - least + 1;
}

/* ---- lines between two layers ---- */

/* The line from a box down to all its targets. Boxes with the same targets share it. */
struct net {
    const struct box *from[BOXES_MAX], *to[BOXES_MAX];
    int from_count, n, low, high, track; /* NO_TRACK: straight, or not yet placed */
    bool is_straight;
};

struct channel {
    struct net nets[STEPS_MAX];
    int n, tracks;
    uint8_t lines[TRACKS_MAX][WIDTH_MAX];
    bool is_joint[TRACKS_MAX][WIDTH_MAX]; /* lines meet there; otherwise they cross */
};

static bool net_has_targets_of(const struct net *net, const struct net *other)
{
    bool same = net->n == other->n;
    for (int i = 0; same && i < net->n; i++)
        same = net->to[i] == other->to[i];
    return same;
}

static void net_add_from(struct net *net, const struct box *from)
{
    net->from[net->from_count++] = from;
    net->low = min_of(net->low, from->centre);
    net->high = max_of(net->high, from->centre);
    net->is_straight = net->low == net->high;
}

static bool channel_add(struct drawing *d, struct channel *c, const struct box *from, const struct box_layer *below)
{
    if (c->n == STEPS_MAX)
        return false;
    struct net *net = &c->nets[c->n];
    *net = (struct net){ .low = from->centre, .high = from->centre, .track = NO_TRACK };
    for (int i = 0; i < below->n; i++) {
        if (!boxes_are_joined(d, from, below->v[i]))
            continue;
        net->to[net->n++] = below->v[i];
        net->low = min_of(net->low, below->v[i]->centre);
        net->high = max_of(net->high, below->v[i]->centre);
    }
    if (!net->n)
        return true;
    struct net *shared = c->nets;
    while (!net_has_targets_of(shared, net))
        shared++;
    net_add_from(shared, from);
    c->n += shared == net;
    return true;
}

static bool net_reaches(const struct net *n, int column)
{
    for (int i = 0; i < n->n; i++)
        if (n->to[i]->centre == column)
            return true;
    return false;
}

/* Whether `upper` must run above `lower`: below its track, `lower` goes down in the column in which `upper` begins. */
static bool net_must_be_above(const struct net *upper, const struct net *lower)
{
    if (upper == lower || upper->is_straight || lower->is_straight)
        return false;
    for (int i = 0; i < upper->from_count; i++)
        if (net_reaches(lower, upper->from[i]->centre) && !net_reaches(upper, upper->from[i]->centre))
            return true;
    return false;
}

static bool channel_fits_in_track(const struct channel *c, const struct net *net, int track)
{
    for (int i = 0; i < c->n; i++) {
        const struct net *other = &c->nets[i];
        if (net_must_be_above(other, net) && (other->track == NO_TRACK || other->track >= track))
            return false;
        if (other != net && other->track == track && other->low <= net->high && net->low <= other->high)
            return false;
    }
    return true;
}

/* Gives each line that is not straight a row. False: there are too many, or each must be above another. */
static bool channel_assign_tracks(struct channel *c)
{
    int left = 0;
    for (int i = 0; i < c->n; i++)
        left += !c->nets[i].is_straight;
    for (; left && c->tracks < TRACKS_MAX; c->tracks++) {
        int before = left;
        for (int i = 0; i < c->n; i++) {
            struct net *net = &c->nets[i];
            if (net->is_straight || net->track != NO_TRACK || !channel_fits_in_track(c, net, c->tracks))
                continue;
            net->track = c->tracks;
            left--;
        }
        if (before == left)
            return false;
    }
    return left == 0;
}

static void channel_draw_net(struct channel *c, const struct net *net)
{
    int track = net->is_straight ? c->tracks : net->track;
    for (int i = 0; i < net->from_count; i++)
        for (int row = 0; row < track; row++)
            c->lines[row][net->from[i]->centre] |= UP | DOWN;
    if (net->is_straight)
        return;
    for (int x = net->low; x <= net->high; x++)
        c->lines[track][x] |= (uint8_t)((x > net->low ? LEFT : 0) | (x < net->high ? RIGHT : 0));
    for (int i = 0; i < net->from_count; i++) {
        c->lines[track][net->from[i]->centre] |= UP;
        c->is_joint[track][net->from[i]->centre] = true;
    }
    for (int i = 0; i < net->n; i++) {
        int to = net->to[i]->centre;
        c->lines[track][to] |= DOWN;
        c->is_joint[track][to] = true;
        for (int row = track + 1; row < c->tracks; row++)
            c->lines[row][to] |= UP | DOWN;
    }
}

/* ---- output ---- */

static void boxes_put(struct cell *line, int x, const char *text, const char *colour)
{
    snprintf(line[x].text, sizeof line[x].text, "%s", text);
    line[x].colour = colour;
}

static void boxes_print_line(struct drawing *d, const struct cell *line)
{
    int end = d->width;
    const char *colour = NULL;
    while (end > 0 && !line[end - 1].text[0])
        end--;
    for (int x = 0; x < end; x++) {
        const char *wanted = d->colours ? line[x].colour : NULL;
        if (colour && wanted != colour)
            buf_text(d->out, "\033[0m");
        if (wanted && wanted != colour)
            buf_text(d->out, wanted);
        colour = wanted;
        buf_text(d->out, line[x].text[0] ? line[x].text : " ");
    }
    buf_text(d->out, colour ? "\033[0m\n" : "\n");
}

static void boxes_put_label(struct cell *line, const struct box *b)
{
    struct str label = str_from(b->label);
    int x = b->centre - b->width / 2 + 2;
    for (size_t i = 0, n; i < label.n; i += n, x++) {
        char text[8];
        n = max_of(str_utf8_at(label, i), (size_t)1);
        snprintf(text, sizeof text, STR_FMT, STR_ARG(str_sub(label, i, i + n)));
        boxes_put(line, x, text, b->colour);
    }
}

/* Row 0 is the upper border, 1 the label, 2 the lower border. */
static void boxes_put_row(struct cell *line, const struct box *b, int row, bool has_children)
{
    int left = b->centre - b->width / 2, right = b->centre + b->width / 2;
    static const char *const ends[3][2] = { { "┌", "┐" }, { "│", "│" }, { "└", "┘" } };
    if (b->is_thin) {
        boxes_put(line, b->centre, "│", NULL);
        return;
    }
    for (int x = left + 1; x < right && row != 1; x++)
        boxes_put(line, x, row == 2 && has_children && x == b->centre ? "┬" : "─", b->colour);
    boxes_put(line, left, ends[row][0], b->colour);
    boxes_put(line, right, ends[row][1], b->colour);
    if (row == 1)
        boxes_put_label(line, b);
}

static bool boxes_has_net(const struct channel *c, const struct box *b)
{
    for (int i = 0; c && i < c->n; i++)
        for (int k = 0; k < c->nets[i].from_count; k++)
            if (c->nets[i].from[k] == b)
                return true;
    return false;
}

static void boxes_print_layer(struct drawing *d, const struct box_layer *l, const struct channel *below)
{
    for (int row = 0; row < 3; row++) {
        struct cell line[WIDTH_MAX] = { 0 };
        for (int i = 0; i < l->n; i++)
            boxes_put_row(line, l->v[i], row, boxes_has_net(below, l->v[i]));
        boxes_print_line(d, line);
    }
}

static void channel_print(struct drawing *d, const struct channel *c, const struct box_layer *below)
{
    static const char *const signs[16] = {
        "", "│", "│", "│", "─", "┘", "┐", "┤", "─", "└", "┌", "├", "─", "┴", "┬", "┼"
    };
    for (int row = 0; row < c->tracks; row++) {
        struct cell line[WIDTH_MAX] = { 0 };
        for (int x = 0; x < d->width; x++) {
            uint8_t lines = c->lines[row][x];
            bool crosses = lines == (UP | DOWN | LEFT | RIGHT) && !c->is_joint[row][x];
            boxes_put(line, x, crosses ? "│" : signs[lines], NULL);
        }
        boxes_print_line(d, line);
    }
    struct cell line[WIDTH_MAX] = { 0 };
    for (int i = 0; i < below->n; i++)
        if (below->v[i]->is_thin || d->g->v[below->v[i]->step].n)
            boxes_put(line, below->v[i]->centre, below->v[i]->is_thin ? "│" : "▼", NULL);
    boxes_print_line(d, line);
}

static bool boxes_print(struct drawing *d, struct channel *channels)
{
    int last = (int)d->g->layers - 1;
    for (int l = 0; l < last; l++) {
        for (int i = 0; i < d->layers[l].n; i++)
            if (!channel_add(d, &channels[l], d->layers[l].v[i], &d->layers[l + 1]))
                return false;
        if (!channel_assign_tracks(&channels[l]))
            return false;
        for (int i = 0; i < channels[l].n; i++)
            channel_draw_net(&channels[l], &channels[l].nets[i]);
    }
    for (int l = 0; l <= last; l++) {
        boxes_print_layer(d, &d->layers[l], l < last ? &channels[l] : NULL);
        if (l < last)
            channel_print(d, &channels[l], &d->layers[l + 1]);
    }
    return true;
}

bool workflow_boxes_draw(const struct graph *g, size_t width, bool colours, struct arena *a, struct buf *out)
{
    size_t edges = 0;
    for (uint32_t i = 0; i < g->n; i++)
        edges += g->v[i].n;
    if (!g->n || g->n > STEPS_MAX || g->layers > LAYERS_MAX || edges > EDGES_MAX || edges > 3 * (size_t)g->n)
        return false;
    struct drawing *d = arena_new(a, struct drawing);
    struct channel *channels = arena_array(a, struct channel, g->layers);
    if (!d || !channels)
        return false;
    d->g = g;
    d->colours = colours;
    d->out = out;
    if (!boxes_add_all(d))
        return false;
    boxes_order(d);
    boxes_place(d);
    if (d->width > WIDTH_MAX || (size_t)d->width > width)
        return false;
    return boxes_print(d, channels);
}
