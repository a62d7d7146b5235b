// The runbook, which travels with the dashboard: a section for each alert, from docs/RUNBOOK.md.
import { h } from '../lib/dom.js';

/** @type {Promise<Map<string, string[]>> | null} */
let reading = null;

/**
 * Sections of a text in Markdown: the heading, and its paragraphs.
 * @param {string} text @returns {Map<string, string[]>}
 */
export const sectionsOf = text => new Map(text.split(/^## /m).slice(1).map(part => {
    const [title, ...rest] = part.split('\n');
    return [title.trim(), rest.join('\n').split(/\n\s*\n/).map(p => p.trim()).filter(Boolean)];
}));

/** @returns {Promise<Map<string, string[]>>} */
export function readRunbook() {
    reading ??= fetch(new URL('../RUNBOOK.md', import.meta.url)).then(answer => answer.ok ? answer.text()
        : '').then(sectionsOf).catch(() => {
        reading = null;
        return new Map();
    });
    return reading;
}

// Bold, code and links of a paragraph; a link to another document is its words.
/** @param {string} text */
export const inline = text => text.replace(/\s*\n\s*/g,
    ' ').split(/(\*\*.+?\*\*|`[^`]+`|\[[^\]]+\]\([^)]+\))/).map(part => part.startsWith('**')
    ? h('b', part.slice(2, -2)) : part.startsWith('`') ? h('code', part.slice(1, -1)) : part.startsWith('[')
        ? part.slice(1, part.indexOf(']')).replaceAll('`', '') : part);

/** @param {Map<string, string[]>} runbook @param {string} name */
export function runbookSection(runbook, name) {
    const parts = runbook.get(name);
    if (!parts) return h('p.second', 'The runbook has no section for it.');
    return h('div.runbook', parts.map((part, i) => part.startsWith('```') ? h('pre.command', { key: i }, part.split('\n').slice(1,
        -1).join('\n'))
        : h('p', { key: i }, inline(part))));
}
