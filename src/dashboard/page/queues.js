import { h } from '../lib/dom.js';
/** @type {import('../lib/app.js').Page} */
export const page = { title: () => 'queues', load: async () => ({}), view: () => h('header.head', h('h1', { tabindex: -1 }, 'queues')) };
