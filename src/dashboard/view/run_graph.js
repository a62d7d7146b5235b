// The graph of a run as SVG: layers labelled with when they began, the critical path in ink, maps as stacks with a count. Arrow keys
// go from step to step, Enter opens one.
import { h } from '../lib/dom.js';
import { clock, number, parse, span } from '../lib/time.js';
import { icon, stateOf } from './icons.js';
import { edgePath, layout } from './graph.js';

/**
 * @typedef {{critical: Set<string>, chosen: string | null, find: string, zoom: number, zone: string, now: number, href: (step: string) => string, open: (step: string) => void}} How
 */

const SIZE = { width: 200, height: 44, gapX: 28, gapY: 28 }, LEFT = 76, MAP_HEIGHT = 64;
/** @type {WeakMap<any[], import('./graph.js').Layout>} */
const layouts = new WeakMap();
let lastShape = '', /** @type {import('./graph.js').Layout | null} */ lastLayout = null;

/** @param {any} data */
function edgesOf(data) {
    /** @type {Map<string, any>} */
    const defined = new Map((data.definition?.definition?.steps ?? []).map((/** @type {any} */ s) => [s.name, s]));
    return data.steps.flatMap((/** @type {any} */ s) => s.depends_on.map((/** @type {string} */ from) => {
        const dependency = (defined.get(s.step)?.depends_on ?? []).find((/** @type {any} */ d) => typeof d === 'object' && d.step === from);
        return { from, to: s.step, kind: dependency?.type === 'MUST_FAIL' ? 'on-failure' : '' };
    }));
}

// The layout depends on the steps alone, not on their states: a refresh moves nothing.
/** @param {any} data */
function layoutOf(data) {
    const found = layouts.get(data.steps);
    if (found) return found;
    const nodes = data.steps.map((/** @type {any} */ s) => ({ id: s.step, height: s.items ? MAP_HEIGHT : SIZE.height })),
        edges = edgesOf(data);
    const shape = JSON.stringify([nodes, edges]);
    if (shape !== lastShape || !lastLayout) {
        lastShape = shape;
        lastLayout = layout(nodes, edges, SIZE);
    }
    layouts.set(data.steps, lastLayout);
    return lastLayout;
}

/** @param {any} step @param {number} now */
function line(step, now) {
    const word = step.waits_for?.gate === 'signal' ? 'Approval' : stateOf(step.status)[1];
    if (step.status === 'SKIPPED') return 'Skipped' + (step.last_error ? ' · ' + step.last_error.replace(/^skipped: /, '') : '');
    if (step.status === 'BLOCKED') return step.waits_for ? `${word} · ${step.waits_for.name ?? step.waits_for.gate}`
        : `Waits · for ${step.depends_on.join(', ')}`;
    const took = step.duration_ms ?? (step.started_at && step.status === 'RUNNING' ? now - parse(step.started_at) : null);
    if (step.status === 'FAILED' && step.last_error) return `Failed · ${step.last_error}`;
    return took === null ? word : `${word} · ${span(took)}`;
}

/** @param {string} text @param {number} width */
const fit = (text, width) => text.length * 6.6 > width ? text.slice(0, Math.max(4, Math.floor(width / 6.6) - 1)) + '…' : text;

/** @param {any} data @param {How} how */
export function runGraph(data, how) {
    const plan = layoutOf(data), by = new Map(data.steps.map((/** @type {any} */ s) => [s.step, s])), pad = 8;
    const width = LEFT + plan.width + 2 * pad + 8, height = plan.height + 2 * pad + 8;
    const at = (/** @type {number} */ x) => LEFT + pad + x, critical = (/** @type {any} */ e) => how.critical.has(e.from)
        && how.critical.has(e.to);
    const starts = plan.layers.map((_,
        i) => Math.min(...plan.nodes.filter(n => n.layer === i).map(n => parse(/** @type {any} */ (by.get(n.id))?.started_at)).filter(ms => !Number.isNaN(ms))));
    const edges = [...plan.edges].sort((a, b) => Number(critical(a)) - Number(critical(b)));
    return h('div.graph', { tabindex: 0, role: 'region', 'aria-label': 'Steps of the run as a graph; List shows the same as a table',
        mounted: (/** @type {HTMLElement} */ e) => centre(e) },
        h('svg', { width: width * how.zoom, height: height * how.zoom, viewBox: `0 0 ${width} ${height}`, role: 'group',
            'aria-label': 'Steps' },
            plan.layers.map((layer, i) => Number.isFinite(starts[i]) ? h('text', { key: 't' + i, x: 0, y: layer.y + pad + 26 },
                clock(starts[i], how.zone)) : null),
            edges.map(e => edgeView(e, critical(e) ? 'critical' : e.kind ?? '', at, pad, /** @type {any} */ (by.get(e.to))?.items ? 6 : 0)),
            plan.nodes.map(node => nodeView(node, by.get(node.id), how, at(node.x), node.y + pad))));
}

/** @param {import('./graph.js').Drawn} edge @param {string} kind @param {(x: number) => number} at @param {number} pad @param {number} above */
function edgeView(edge, kind, at, pad, above) {
    const points = edge.points.map(([x, y], i) => /** @type {[number, number]} */ ([at(x),
        y + pad - (i === edge.points.length - 1 ? above : 0)])), [x, y] = points[points.length - 1];
    return h('g', { key: `${edge.from}\u0000${edge.to}` }, h('path.edge', { class: kind || null, d: edgePath(points, 6) }),
        h('polygon.arrow', { class: kind || null, points: `${x - 4},${y - 6} ${x + 4},${y - 6} ${x},${y}` }));
}

/** @param {import('./graph.js').Placed} node @param {any} step @param {How} how @param {number} x @param {number} y */
function nodeView(node, step, how, x, y) {
    const [iconName, , tone] = stateOf(step.waits_for?.gate === 'signal' ? 'APPROVAL' : step.status), todo = ['BLOCKED',
        'SCHEDULED'].includes(step.status) && tone !== 'running' && step.waits_for?.gate !== 'signal';
    const found = how.find && node.id.toLowerCase().includes(how.find.toLowerCase());
    const classes = [how.critical.has(node.id) ? 'critical' : '', todo ? 'todo' : '', how.chosen === node.id ? 'chosen' : '',
        found ? 'found' : ''].filter(Boolean).join(' ');
    const items = step.items, done = items?.by_status.COMPLETED ?? 0, failed = items?.by_status.FAILED ?? 0, inner = node.width - 42;
    return h('g.step', { key: node.id, class: classes || null, 'data-tone': todo ? 'idle' : tone, tabindex: 0, role: 'button',
        'aria-label': `${node.id}, ${line(step, how.now)}`, transform: `translate(${x.toFixed(1)} ${y})`,
        onclick: () => how.open(node.id), 'data-step': node.id, onkeydown: (/** @type {KeyboardEvent} */ e) => onKey(e, node, how) },
    h('title', `${node.id}\n${line(step, how.now)}`),
    items ? [h('rect', { x: 6, y: -6, width: node.width, height: node.height, rx: 4 }),
        h('rect', { x: 3, y: -3, width: node.width, height: node.height, rx: 4 })] : null,
    h('rect.box', { width: node.width, height: node.height, rx: 4 }), icon(iconName, { x: 10, y: 8, width: 14, height: 14 }),
    h('text.name', { x: 32, y: 19 }, fit(node.id, items ? inner - 50 : inner)), h('text', { x: 32, y: 35 },
        fit(line(step, how.now), inner)),
    items ? [h('text', { x: node.width - 10, y: 19, 'text-anchor': 'end' }, `${number(done + failed)}/${number(items.total)}`),
        h('rect.track', { x: 32, y: 47, width: inner, height: 6 }),
        h('rect', { class: step.status === 'RUNNING' ? 'done' : 'ended', x: 32, y: 47, width: inner * done / Math.max(1, items.total),
            height: 6 }), failed ? h('rect.failed', { x: 32 + inner * done / items.total, y: 47, width: Math.max(2,
            inner * failed / items.total), height: 6 }) : null] : null);
}

// Enter opens a step; arrows go to the nearest one above, below or beside it.
/** @param {KeyboardEvent} event @param {import('./graph.js').Placed} node @param {How} how */
function onKey(event, node, how) {
    const moves = /** @type {Record<string, [number, number]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1],
        ArrowRight: [0, 1] });
    const [down, right] = moves[event.key] ?? [0, 0];
    if (event.key === 'Enter' || event.key === ' ') {
        how.open(node.id);
    } else if (down || right) {
        const near = (lastLayout?.nodes ?? []).filter(n => n.layer === node.layer + down
            && (down || Math.sign(n.x - node.x) === right)).sort((a, b) => Math.abs(a.x - node.x) - Math.abs(b.x - node.x))[0];
        if (near) /** @type {HTMLElement | null} */ (document.querySelector(`[data-step="${CSS.escape(near.id)}"]`))?.focus();
    } else {
        return;
    }
    event.preventDefault();
    event.stopPropagation();
}

// On a narrow screen the graph opens at the critical path.
/** @param {HTMLElement} element */
function centre(element) {
    const first = /** @type {SVGGElement | null} */ (element.querySelector('.step.chosen, .step.critical'));
    if (!first || element.scrollWidth <= element.clientWidth) return;
    const box = first.getBoundingClientRect(), frame = element.getBoundingClientRect();
    element.scrollLeft = box.left - frame.left + box.width / 2 - element.clientWidth / 2;
}
