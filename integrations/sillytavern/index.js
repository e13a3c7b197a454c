// Familiar for SillyTavern: asks a local server for memory before each reply, and shows what it gave.

import { DEFAULTS, addMemory, linesOf, requestFor, summaryOf, wantsMemory } from './logic.js';

const NAME = 'familiar';
const context = () => globalThis.SillyTavern.getContext();
let pending = null; // what was recalled for the reply that is being made
let toldOf = ''; // the failure that was shown last, so that it is not shown at each reply

function settings() {
    const all = context().extensionSettings;
    all[NAME] = { ...DEFAULTS, ...all[NAME] };
    return all[NAME];
}

function who(type) {
    const { name1, name2, chatId, groupId } = context();
    return { character: name2, user: name1, chatId: groupId ? `${groupId}-${chatId}` : chatId, type };
}

async function ask(path, chat, type) {
    const set = settings();
    const url = `${set.address.replace(/\/+(v1\/*)?$/, '')}${path}`;
    const request = requestFor(set, chat, who(type));
    const response = await fetch(url, { ...request, signal: AbortSignal.timeout(set.timeoutMs) });
    const found = await response.json();
    if (!response.ok) {
        throw new Error(found?.error?.message ?? `HTTP ${response.status}`);
    }
    toldOf = '';
    return found;
}

function tell(error) {
    const words = `Familiar: ${error.message}`;
    if (words !== toldOf) {
        toldOf = words;
        globalThis.toastr?.warning(words);
    }
}

globalThis.familiarInterceptor = async (chat, contextSize, abort, type) => {
    pending = null;
    if (!settings().enabled || !wantsMemory(type)) {
        return;
    }
    try {
        const found = await ask('/familiar/context', chat, type);
        addMemory(chat, found.memory);
        pending = found.recalled;
    } catch (error) {
        tell(error); // the reply is made without memory
    }
};

function element(kind, className, text) {
    const made = document.createElement(kind);
    made.className = className;
    made.textContent = text;
    return made;
}

function show(id, recalled) {
    const block = document.querySelector(`#chat .mes[mesid="${Number(id)}"] .mes_block`);
    if (!block) {
        return;
    }
    block.querySelector('.familiar-recall')?.remove();
    const details = element('details', 'familiar-recall', '');
    const summary = element('summary', '', `${summaryOf(recalled)} · why`);
    details.append(summary);
    for (const line of linesOf(recalled)) {
        details.append(element('div', 'familiar-where', line.where));
        if (line.cause) {
            details.append(element('div', 'familiar-cause', line.cause));
        }
        details.append(element('pre', 'familiar-text', line.text));
    }
    block.append(details);
}

async function onReply(id, type) {
    const set = settings();
    if (!set.enabled || !wantsMemory(type)) {
        return;
    }
    if (pending) {
        show(id, pending);
    }
    if (set.keep) {
        try {
            await ask('/familiar/turns', context().chat, type);
        } catch (error) {
            tell(error);
        }
    }
}

function field(label, input) {
    const row = element('label', 'familiar-field', label);
    row.append(input);
    return row;
}

function input(kind, key) {
    const made = document.createElement('input');
    made.type = kind;
    const isSwitch = kind === 'checkbox';
    made[isSwitch ? 'checked' : 'value'] = settings()[key];
    made.addEventListener('change', () => {
        settings()[key] = isSwitch ? made.checked : made.value.trim();
        context().saveSettingsDebounced();
    });
    return made;
}

function addPanel() {
    const place = document.querySelector('#extensions_settings2, #extensions_settings');
    if (!place) {
        return;
    }
    const panel = element('div', 'familiar-panel', '');
    panel.append(
        element('h4', '', 'Familiar'),
        field('Ask for memory', input('checkbox', 'enabled')),
        field('Address of familiar serve', input('text', 'address')),
        field('Token (if the server needs one)', input('password', 'token')),
        field('Familiar (empty: the character’s name)', input('text', 'familiar')),
        field('Keep what is said (off if SillyTavern talks to familiar serve itself)', input('checkbox', 'keep')),
    );
    place.append(panel);
}

const { eventSource, eventTypes } = context();
eventSource.on(eventTypes.CHARACTER_MESSAGE_RENDERED, onReply);
addPanel();
