import { same, yes } from './unit.js';

export default async lib => {
    const { h, render, textOf } = await lib('lib/dom.js');
    const place = () => document.createElement('div');
    return {
        'text is text, whatever it looks like': () => { const d = place(); render(d,
            h('p', '<img src=x onerror=alert(1)>')); same([d.querySelector('img'), d.textContent],
            [null, '<img src=x onerror=alert(1)>']); },
        'a row that moves keeps its element': () => { const d = place(), list = ids => h('ul',
            ids.map(id => h('li', { key: id }, id))); render(d, list(['a', 'b', 'c'])); const b = d.querySelectorAll('li')[1]; render(d,
            list(['c', 'x', 'b'])); same([d.textContent, d.querySelectorAll('li')[2] === b], ['cxb', true]); },
        'what is typed survives a refresh': () => { const d = place(); render(d,
            h('input', { value: '' })); d.firstChild.value = 'typed'; render(d, h('input', { value: '' }),
            h('p', 'x')); same(d.firstChild.value, 'typed'); },
        'an attribute that goes is removed': () => { const d = place(); render(d, h('a', { href: '#/x', title: 't' }, 'x')); render(d,
            h('a', { href: '#/x' }, 'x')); same(d.firstChild.hasAttribute('title'), false); },
        'no link runs a script': () => { const d = place(); render(d, h('a', { href: 'javascript:alert(1)' }, 'x'),
            h('a', { href: '//evil.example' }, 'y'), h('a', { href: '#/tasks' },
            'z')); same([...d.children].map(a => a.getAttribute('href')), [null, null, '#/tasks']); },
        'a handler is a function or nothing': () => { const d = place(); render(d, h('b', { onclick: 'alert(1)' },
            'x')); same([d.firstChild.onclick, d.firstChild.getAttribute('onclick')], [null, null]); },
        'style and srcdoc are refused': () => { for (const name of ['style', 'srcdoc',
            'formaction']) { let refused = false; try { render(place(), h('div',
            { [name]: 'x' })); } catch { refused = true; } yes(refused, name); } },
        'svg has its namespace': () => { const d = place(); render(d, h('svg', h('a', { href: '#/x' },
            h('title', 't')))); same(d.querySelector('a').namespaceURI, 'http://www.w3.org/2000/svg'); },
        'false and null are nothing': () => same(textOf(h('p', null, false, undefined, '', 0, ['a', ['b']])), '0ab'),
        '10,000 refreshes of 100 rows leave no more than 100 rows': () => { const d = place(); for (let i = 0; i < 1000; i++) render(d,
            Array.from({ length: 100 }, (_, k) => h('p', { key: (k + i) % 150 }, String(i)))); same(d.childNodes.length, 100); },
    };
};
