// Runs the extension outside of a browser: a page that only holds elements, and SillyTavern's
// context as a value. Reads scenarios from standard input, one a line, and prints what came of each.
// Each has a page, and an extension, of its own.

import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

class Element {
    constructor(kind) {
        Object.assign(this, { kind, children: [], className: '', textContent: '', handlers: {}, marks: {} });
        this.classList = { toggle: (name, isOn) => { this.marks[name] = isOn; } };
    }
    getAttribute(name) { return this[name]; }
    append(...more) { this.children.push(...more); }
    querySelector(selector) {
        return this.children.find((child) => child.className.split(' ').includes(selector.slice(1))) ?? null;
    }
    remove() { this.isRemoved = true; }
    addEventListener(name, handler) { this.handlers[name] = handler; }
    text() { return [this.textContent, ...this.children.map((child) => child.text())].join('\n'); }
}

const realFetch = globalThis.fetch;

async function play(scenario, number) {
    const block = new Element('div');
    const messages = scenario.chat.map((_, id) => {
        const [made, buttons] = [new Element('div'), new Element('div')];
        buttons.className = 'extraMesButtons';
        made.append(buttons);
        return Object.assign(made, { mesid: String(id) });
    });
    const infos = [];
    const panel = new Element('div');
    const warnings = [];
    const asked = [];
    const handlers = {};
    let onKept = () => {};
    globalThis.fetch = async (url, options) => {
        asked.push(url);
        try {
            return await realFetch(url, options);
        } finally {
            if (url.endsWith('/familiar/chat')) {
                onKept();
            }
        }
    };
    globalThis.location = { origin: scenario.page ?? 'http://127.0.0.1:8000' };
    globalThis.document = {
        body: { dataset: {} },
        createElement: (kind) => new Element(kind),
        querySelector: (selector) => (selector.startsWith('#chat') ? block : panel),
        querySelectorAll: () => messages,
    };
    globalThis.toastr = { warning: (words) => warnings.push(words), info: (words) => infos.push(words) };
    const name = scenario.character ?? 'Ada';
    const questions = [];
    const context = {
        extensionSettings: { familiar: scenario.settings },
        saveSettingsDebounced() {},
        eventSource: { on: (event, handler) => { const before = handlers[event]; handlers[event] = (...about) => { before?.(...about); handler(...about); }; } },
        eventTypes: { CHARACTER_MESSAGE_RENDERED: 'rendered', CHAT_CHANGED: 'changed', CHARACTER_EDITED: 'edited' },
        name1: 'Anna',
        name2: name,
        characters: [{ name, avatar: scenario.avatar ?? 'Ada.png', data: scenario.card ?? {} }],
        characterId: 0,
        groups: [],
        chatId: scenario.chatId ?? 'Ada - 2026-01-01',
        chatMetadata: scenario.metadata ?? {},
        groupId: null,
        chat: scenario.chat,
        POPUP_TYPE: {},
        callGenericPopup: async (content) => { questions.push(content.text()); return scenario.answer ?? true; },
    };
    globalThis.SillyTavern = { getContext: () => context };

    await import(`${pathToFileURL(scenario.extension)}?${number}`);
    const sent = [...scenario.chat];
    await globalThis.familiarInterceptor(sent, 4096, () => {}, scenario.type ?? 'normal');
    if (scenario.reply) {
        const isKept = new Promise((done) => { onKept = done; });
        context.chat.push({ name, is_user: false, mes: scenario.reply, send_date: '2026-01-01T10:01:00.000Z' });
        handlers.rendered(context.chat.length - 1, scenario.type ?? 'normal');
        if (Object.keys(context.extensionSettings.familiar.bindings ?? {}).length) {
            await isKept;
        }
    }
    handlers.changed?.();
    await new Promise((done) => { setTimeout(done, 20); });
    if (scenario.remember !== undefined) {
        const button = messages[scenario.remember].querySelector('.extraMesButtons').querySelector('.familiar-remember');
        button.handlers.click();
        while (!infos.length && !warnings.length) {
            await new Promise((done) => { setTimeout(done, 20); });
        }
    }
    const out = messages.map((one) => Boolean(one.marks['familiar-out']));
    const bindings = context.extensionSettings.familiar.bindings;
    const made = { sent, chat: context.chat, shown: block.text(), panel: panel.text(), warnings, infos, out, asked, questions, bindings };
    return made;
}

let number = 0;
for await (const line of createInterface({ input: process.stdin })) {
    number += 1;
    let made;
    try {
        made = await play(JSON.parse(line), number);
    } catch (error) {
        made = { error: error.stack };
    }
    console.log(JSON.stringify(made));
}
process.exit(0);
