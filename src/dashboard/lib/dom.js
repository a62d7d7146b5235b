// Views are plain trees made by h(); render() brings the document in line with a tree and touches only what differs, so that focus,
// selection and scroll position survive a refresh. Text is only ever text: there is no way to pass markup.

const SVG = 'http://www.w3.org/2000/svg';
const SAFE_LINK = /^(#|\/(?!\/)|https?:\/\/)/;
const AS_PROPERTY = new Set(['value', 'checked', 'disabled', 'open', 'indeterminate', 'selected']);
const REFUSED = /^(on|style$|srcdoc$|src$|xlink|formaction$|action$)/i;

/** @typedef {{tag: string, props: Record<string, any>, kids: Tree[], key: any}} Branch */
/** @typedef {Branch | string} Tree */
/** @typedef {any} Kid a tree, a number, nothing, or a list of these */

/** @param {Kid[]} kids @param {Tree[]} into @returns {Tree[]} */
function flatten(kids, into) {
    for (const kid of kids) {
        if (Array.isArray(kid)) flatten(kid, into);
        else if (typeof kid === 'object' && kid !== null) into.push(kid);
        else if (kid !== null && kid !== undefined && kid !== false && kid !== '') into.push(String(kid));
    }
    return into;
}

/**
 * h('td.num', {title: 'x'}, 'text', h('b', 'more')). The properties may be left out.
 * Special properties: key (identity among siblings), on… (handlers), draw (width => tree, called again when the width changes),
 * mounted (called once with the element).
 * @param {string} selector @param {...any} rest @returns {Branch}
 */
export function h(selector, ...rest) {
    const [tag, ...classes] = selector.split('.');
    const first = rest[0];
    const given = first !== null && typeof first === 'object' && !Array.isArray(first) && !('tag' in first);
    const props = given ? { ...rest.shift() } : {};
    if (classes.length) props.class = props.class ? classes.join(' ') + ' ' + props.class : classes.join(' ');
    const key = props.key;
    delete props.key;
    return { tag, props, kids: flatten(rest, []), key };
}

/** @type {WeakMap<Node, Tree[]>} */
const shown = new WeakMap(); // what an element's children were made of
/** @type {WeakMap<Element, (width: number) => Kid>} */
const drawers = new WeakMap();
const sizes = typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(entries => {
    for (const { target } of entries) redraw(target);
});
/** @type {WeakMap<Element, number>} */
const widths = new WeakMap();

/** @param {Element} element */
function redraw(element) {
    const draw = drawers.get(element);
    const width = element.clientWidth;
    if (!draw || width === 0) return;
    widths.set(element, width);
    render(element, draw(width));
}

/** @param {Element} element @param {string} name @param {any} value @param {any} before */
function setProp(element, name, value, before) {
    if (name.startsWith('on')) {
        /** @type {any} */ (element)[name] = typeof value === 'function' ? value : null;
    } else if (name === 'draw') {
        drawers.set(element, value);
        if (before === undefined) sizes?.observe(element);
        if (widths.has(element)) redraw(element);
    } else if (name === 'mounted') {
        return;
    } else if (AS_PROPERTY.has(name) && name in element) {
        if (name === 'open') return; // of a dialog or details: the browser's
        /** @type {any} */ (element)[name] = value ?? (name === 'value' ? '' : false);
    } else if (REFUSED.test(name)) {
        throw new Error(`attribute ${name} is refused`);
    } else if (value === null || value === undefined || value === false) {
        element.removeAttribute(name);
    } else if (name === 'href' && !SAFE_LINK.test(String(value))) {
        element.removeAttribute(name);
    } else {
        element.setAttribute(name, value === true ? '' : String(value));
    }
}

/** @param {Tree} tree @param {boolean} svg @returns {Node} */
function create(tree, svg) {
    if (typeof tree === 'string') return document.createTextNode(tree);
    const inside = svg || tree.tag === 'svg';
    const element = inside ? document.createElementNS(SVG, tree.tag) : document.createElement(tree.tag);
    patchKids(element, [], tree.kids, inside);
    for (const [name, value] of Object.entries(tree.props)) setProp(element, name, value, undefined);
    if (tree.props.mounted) queueMicrotask(() => tree.props.mounted(element));
    return element;
}

/** @param {Node} node @param {Tree} before @param {Tree} after @returns {boolean} whether the node could be kept */
function patch(node, before, after) {
    if (before === after) return true;
    if (typeof after === 'string' || typeof before === 'string') {
        if (typeof after !== typeof before) return false;
        if (after !== before) node.nodeValue = /** @type {string} */ (after);
        return true;
    }
    if (before.tag !== after.tag || before.key !== after.key) return false;
    const element = /** @type {Element} */ (node);
    for (const name of Object.keys(before.props)) if (!(name in after.props)) setProp(element, name, undefined, before.props[name]);
    for (const [name, value] of Object.entries(after.props)) {
        if (value !== before.props[name]) setProp(element, name, value, before.props[name]);
    }
    if (!after.props.draw) patchKids(element, before.kids, after.kids, element.namespaceURI === SVG);
    return true;
}

/** @param {Element} parent @param {Tree[]} before @param {Tree[]} after @param {boolean} svg */
function patchKids(parent, before, after, svg) {
    if (!before.length && !parent.firstChild) { // new: nothing to compare
        for (const tree of after) parent.appendChild(create(tree, svg));
        return;
    }
    const nodes = [...parent.childNodes];
    /** @type {Map<any, number>} */
    const keyed = new Map();
    before.forEach((tree, i) => { if (typeof tree !== 'string' && tree.key !== undefined) keyed.set(tree.key, i); });
    const used = new Set();
    let place = 0; // in before, for what has no key
    /** @type {Node[]} */
    const wanted = [];
    for (const tree of after) {
        const key = typeof tree === 'string' ? undefined : tree.key;
        let at = -1;
        if (key !== undefined) {
            at = keyed.get(key) ?? -1;
        } else {
            while (place < before.length && (used.has(place) || keyOf(before[place]) !== undefined)) place++;
            at = place < before.length ? place++ : -1;
        }
        if (at >= 0 && !used.has(at) && nodes[at] && patch(nodes[at], before[at], tree)) {
            used.add(at);
            wanted.push(nodes[at]);
        } else {
            wanted.push(create(tree, svg));
        }
    }
    nodes.forEach((node, i) => { if (!used.has(i)) parent.removeChild(node); });
    let next = parent.firstChild;
    for (const node of wanted) {
        if (node === next) next = next.nextSibling;
        else parent.insertBefore(node, next);
    }
}

/** @param {Tree} tree */
const keyOf = tree => typeof tree === 'string' ? undefined : tree.key;

// Makes the children of an element what the tree says.
/** @param {Element} parent @param {...Kid} kids */
export function render(parent, ...kids) {
    const after = flatten(kids, []);
    const before = shown.get(parent) ?? [];
    if (!shown.has(parent)) parent.replaceChildren();
    shown.set(parent, after);
    patchKids(parent, before, after, parent.namespaceURI === SVG || parent.tagName === 'svg');
}

// The text of a tree, for tests and labels.
/** @param {Kid} tree @returns {string} */
export function textOf(tree) {
    return flatten([tree], []).map(t => typeof t === 'string' ? t : textOf(t.kids)).join('');
}
