// Runs the extension outside of a browser: a page that only holds elements, and SillyTavern's
// context as a value. Reads a scenario from standard input, prints what came of it.

import { pathToFileURL } from 'node:url';

const scenario = JSON.parse(await new Promise((done) => {
    let text = '';
    process.stdin.on('data', (piece) => { text += piece; });
    process.stdin.on('end', () => done(text));
}));

class Element {
    constructor(kind) { this.kind = kind; this.children = []; this.className = ''; this.textContent = ''; }
    append(...more) { this.children.push(...more); }
    querySelector(selector) {
        return this.children.find((child) => `.${child.className}` === selector) ?? null;
    }
    remove() { this.isRemoved = true; }
    addEventListener() {}
    text() { return [this.textContent, ...this.children.map((child) => child.text())].join('\n'); }
}

const block = new Element('div');
const panel = new Element('div');
const warnings = [];
const handlers = {};
globalThis.document = {
    createElement: (kind) => new Element(kind),
    querySelector: (selector) => (selector.startsWith('#chat') ? block : panel),
};
globalThis.toastr = { warning: (words) => warnings.push(words) };
const context = {
    extensionSettings: { familiar: scenario.settings },
    saveSettingsDebounced() {},
    eventSource: { on: (name, handler) => { handlers[name] = handler; } },
    eventTypes: { CHARACTER_MESSAGE_RENDERED: 'rendered' },
    name1: 'Anna',
    name2: scenario.character ?? 'Ada',
    chatId: scenario.chatId ?? 'Ada - 2026-01-01',
    groupId: null,
    chat: scenario.chat,
};
globalThis.SillyTavern = { getContext: () => context };

await import(pathToFileURL(scenario.extension));
const sent = [...scenario.chat];
await globalThis.familiarInterceptor(sent, 4096, () => {}, scenario.type ?? 'normal');
if (scenario.reply) {
    context.chat.push({ is_user: false, mes: scenario.reply });
    await handlers.rendered(context.chat.length - 1, scenario.type ?? 'normal');
}
console.log(JSON.stringify({ sent, chat: context.chat, shown: block.text(), panel: panel.text(), warnings }));
