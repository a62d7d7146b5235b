import { same, yes } from './unit.js';

const SIZE = { width: 200, height: 44, gapX: 28, gapY: 28 };

/** A random graph whose edges go from lower to higher numbers. */
function random(n, seed) {
    let a = seed;
    const next = () => (a = (a * 1103515245 + 12345) % 2147483648) / 2147483648;
    const nodes = Array.from({ length: n }, (_, i) => ({ id: 's' + i })), edges = [];
    for (let i = 1; i < n; i++) for (let k = 0; k < 1 + Math.floor(next() * 2); k++) edges.push({ from: 's' + Math.floor(Math.max(0,
        i - 40 + next() * Math.min(40, i))), to: 's' + i });
    return { nodes, edges: edges.filter(e => e.from !== e.to) };
}

function overlaps(plan) {
    const rows = new Map();
    for (const n of plan.nodes) rows.set(n.layer, [...rows.get(n.layer) ?? [], n]);
    return [...rows.values()].some(row => row.sort((p, q) => p.x - q.x).some((n, i) => i > 0
        && n.x < row[i - 1].x + row[i - 1].width + SIZE.gapX - .01));
}

export default async lib => {
    const { layout, criticalPath, edgePath, layersOf } = await lib('view/graph.js');
    const chain = ids => ids.map((id, i) => ({ id, parents: i ? [ids[i - 1]] : [], ended: null, running: false, over: false }));
    return {
        'no two steps overlap, in 30 random graphs': () => { for (let seed = 1; seed <= 30; seed++) { const g = random(60,
            seed); yes(!overlaps(layout(g.nodes, g.edges, SIZE)), `seed ${seed}`); } },
        'every edge goes down': () => { const g = random(80, 7); for (const e of layout(g.nodes, g.edges,
            SIZE).edges) for (let i = 1; i < e.points.length; i++) yes(e.points[i][1] >= e.points[i - 1][1], `${e.from} to ${e.to}`); },
        'edges leave a step in the order of where they go': () => {
            const plan = layout(['a', 'b', 'c', 'd'].map(id => ({ id })), ['b', 'c', 'd'].map(to => ({ from: 'a', to })), SIZE),
                x = new Map(plan.nodes.map(n => [n.id, n.x]));
            const list = plan.edges.sort((p, q) => x.get(p.to) - x.get(q.to)).map(e => e.points[0][0]);
            same(list, [...list].sort((p, q) => p - q));
        },
        'a chain is one straight line': () => { const plan = layout(['a', 'b', 'c'].map(id => ({ id })), [{ from: 'a', to: 'b' },
            { from: 'b', to: 'c' }], SIZE); same(new Set(plan.nodes.map(n => n.x)).size, 1); same(plan.nodes.map(n => n.layer),
            [0, 1, 2]); },
        'a cycle and an edge to nowhere do no harm': () => same(layout([{ id: 'a' }, { id: 'b' }], [{ from: 'a', to: 'b' },
            { from: 'b', to: 'a' }, { from: 'x', to: 'a' }], SIZE).nodes.length, 2),
        'nothing is drawn of nothing': () => same(layout([], [], SIZE).nodes, []),
        'one layer below the deepest parent': () => same([...layersOf(new Map([['c', ['a', 'b']], ['b', ['a']]]), ['a', 'b', 'c'])],
            [['a', 0], ['b', 1], ['c', 2]]),
        '1,000 steps take less than 100 ms': () => {
            const g = random(1000, 3);
            layout(g.nodes, g.edges, SIZE);
            const times = [1, 2, 3, 4, 5].map(() => { const start = performance.now(); layout(g.nodes, g.edges,
                SIZE); return performance.now() - start; }).sort((p, q) => p - q);
            yes(times[0] < 100, `it took ${times[0].toFixed(0)} ms at best`);
        },
        'a path bends at right angles': () => yes(/^M0(\.0)? 0V.*H.*V94$/.test(edgePath([[0, 0], [50, 100]], 6)),
            edgePath([[0, 0], [50, 100]], 6)),
        'the critical path goes back along what ended last, and on through the deepest': () => {
            const steps = [{ id: 'a', parents: [], ended: 1, running: false, over: true }, { id: 'b', parents: ['a'], ended: 9,
                running: false, over: true }, { id: 'c', parents: ['a'], ended: 3, running: false, over: true },
                { id: 'd', parents: ['b', 'c'], ended: null, running: true, over: false }, { id: 'e', parents: ['d'], ended: null,
                    running: false, over: false }, { id: 'f', parents: ['d'], ended: null, running: false, over: false },
                    { id: 'g', parents: ['f'], ended: null, running: false, over: false }];
            same([...criticalPath(steps)].sort(), ['a', 'b', 'd', 'f', 'g']);
        },
        'the critical path goes through a skipped step': () => {
            const steps = [{ id: 'slow', parents: [], ended: 9, running: false, over: true }, { id: 'optional', parents: ['slow'],
                ended: null, running: false, over: true }, { id: 'quick', parents: [], ended: 2, running: false, over: true },
                { id: 'finish', parents: ['optional', 'quick'], ended: 10, running: false, over: true }];
            same([...criticalPath(steps)].sort(), ['finish', 'optional', 'slow']);
        },
        'a run that has not begun has none': () => same([...criticalPath(chain(['a', 'b']))], []),
    };
};
