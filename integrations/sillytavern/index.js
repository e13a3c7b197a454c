// Familiar for SillyTavern: asks a local server for memory before each reply, shows what it gave,
// and keeps the chat as it is shown: with its edits, swipes and deletions.

import {
    DEFAULTS, addMemory, bind, chatRequest, diagnose, familiarOf, hasBegun, isOutOfPrompt, linesOf,
    originOf, proposalFor, requestFor, summaryOf, wantsMemory,
} from './logic.js';

const NAME = 'familiar';
const SETTLE_MS = 250; // several events tell of one change
const context = () => globalThis.SillyTavern.getContext();
const page = globalThis.location?.origin ?? '';
const channels = new Map(); // what the server calls a chat
let pending = null; // what was recalled for the reply that is being made
let toldOf = ''; // the failure that was shown last, so that it is not shown at each reply
let timer = null;
let sending = Promise.resolve();
let asking = null; // the question which familiar a card is, while it is open
let light = null;
let chooser = null;

function settings() {
    const all = context().extensionSettings;
    all[NAME] = { ...DEFAULTS, ...all[NAME] };
    return all[NAME];
}

function change(values) {
    Object.assign(settings(), values);
    context().saveSettingsDebounced();
}

async function ask(path, request) {
    const set = settings();
    const url = `${originOf(set.address, page)}${path}`;
    const response = await fetch(url, { ...request, signal: AbortSignal.timeout(set.timeoutMs) });
    const found = await response.json();
    if (!response.ok) {
        throw new Error(found?.error?.message ?? `HTTP ${response.status}`);
    }
    toldOf = '';
    return found;
}

async function tell(error) {
    const found = error instanceof TypeError || error.name === 'TimeoutError' ? await check() : null;
    const words = `Familiar: ${found && !found.ok ? found.words : error.message}`;
    if (words !== toldOf) {
        toldOf = words;
        globalThis.toastr?.warning(words);
    }
}

const probe = (url, options) => fetch(url, { ...options, signal: AbortSignal.timeout(settings().timeoutMs) });

async function check() {
    const found = await diagnose(settings(), probe, page);
    if (light) {
        light.className = `familiar-light ${found.ok ? 'familiar-ok' : 'familiar-wrong'}`;
        light.textContent = found.words;
    }
    return found;
}

/** Return the cards that take part in the chat that is open; the one that speaks is the first. */
function cards() {
    const { characters, characterId, groupId, groups } = context();
    const speaker = characters[characterId];
    if (!groupId) {
        return speaker ? [speaker] : [];
    }
    const members = groups.find((group) => group.id === groupId)?.members ?? [];
    const others = characters.filter((card) => members.includes(card.avatar) && card !== speaker);
    return speaker && members.includes(speaker.avatar) ? [speaker, ...others] : others;
}

/** Return the familiar of a card; ask which one it is where nobody was asked yet. */
async function familiarFor(card) {
    const known = familiarOf(settings(), card);
    if (known !== null) {
        return known;
    }
    asking ??= askWho(card).finally(() => { asking = null; });
    return asking;
}

async function askWho(card) {
    const { familiars, ok, words } = await check();
    if (!ok) {
        throw new Error(words);
    }
    const choice = optionsOf(familiars, proposalFor(card, familiars));
    const content = element('div', 'familiar-question', '');
    const isNew = !settings().bindings[card.avatar];
    content.append(
        element('h3', '', isNew ? `Whose memory is ${card.name}’s?` : `The card ${card.name} has changed. Whose memory is it?`),
        element('p', '', `The card ${card.avatar} uses this familiar's memory, and its chats are saved there.`),
        choice,
    );
    const { callGenericPopup, POPUP_TYPE } = context();
    const isYes = await callGenericPopup(content, POPUP_TYPE.CONFIRM, '', { okButton: 'Use it', cancelButton: 'No memory for this card' });
    change({ bindings: bind(settings(), card, isYes ? choice.value : '') });
    showCard();
    return familiarOf(settings(), card);
}

function optionsOf(familiars, chosen) {
    const made = element('select', 'text_pole familiar-choice', '');
    for (const name of ['', ...familiars]) {
        const option = element('option', '', name || '(none)');
        option.value = name;
        option.selected = name === chosen;
        made.append(option);
    }
    made.value = chosen;
    return made;
}

/** Keep the chat that is open for all familiars in it whose cards are bound. */
function keepChat() {
    sending = sending.then(send, send);
    return sending;
}

async function send() {
    const { chat, chatId } = context();
    if (settings().enabled && settings().keep && chatId && hasBegun(chat)) {
        await sendChat();
    }
}

/** Send the chat to each familiar in it; return the files in which a message was remembered. */
async function sendChat(remember) {
    const { chat, chatId, chatMetadata, groupId, groups, name1, name2 } = context();
    const group = groupId ? groups.find((one) => one.id === groupId) : null;
    const files = [];
    for (const card of cards()) {
        const familiar = familiarOf(settings(), card);
        if (familiar) {
            const about = {
                familiar,
                name: chatId,
                directory: group ? '' : card.avatar.replace(/\.[^.]*$/, ''),
                group: group ? group.name : null,
                user: name1,
                character: group ? 'unused' : name2,
                metadata: chatMetadata,
                remember,
            };
            const kept = await ask('/familiar/chat', chatRequest(settings(), chat, about));
            channels.set(`${familiar}\n${chatId}`, kept.channel);
            files.push(kept.remembered);
        }
    }
    return files.filter(Boolean);
}

/** Have one message written to memory, as a quote. */
async function rememberMessage(id) {
    try {
        const work = sending.then(() => sendChat(id), () => sendChat(id));
        sending = work.catch(() => {});
        const files = await work;
        const words = files.length ? `Remembered in ${files.join(', ')}` : 'No familiar is set for this card';
        globalThis.toastr?.info(`Familiar: ${words}`);
    } catch (error) {
        await tell(error);
    }
}

/** Give each message a button that remembers it, and mark those that left the prompt. */
function markMessages() {
    const { chat, chatMetadata } = context();
    for (const block of document.querySelectorAll('#chat .mes')) {
        const id = Number(block.getAttribute('mesid'));
        const isOut = settings().enabled && isOutOfPrompt(id, chatMetadata);
        block.classList.toggle('familiar-out', isOut);
        const buttons = block.querySelector('.extraMesButtons');
        if (buttons && !buttons.querySelector('.familiar-remember') && chat[id] && !chat[id].is_system) {
            const button = element('div', 'mes_button familiar-remember fa-solid fa-bookmark', '');
            button.title = 'Remember this (Familiar)';
            button.addEventListener('click', () => rememberMessage(Number(block.getAttribute('mesid'))));
            buttons.append(button);
        }
    }
}

const isBusy = () => Boolean(document.body?.dataset.generating);

/** Keep the chat a moment after the last of several events, and not while a reply is written. */
function onChange() {
    clearTimeout(timer);
    timer = setTimeout(() => (isBusy() ? onChange() : keepChat().catch(tell)), SETTLE_MS);
}

globalThis.familiarInterceptor = async (chat, contextSize, abort, type) => {
    pending = null;
    const card = cards()[0];
    if (!settings().enabled || !card || !wantsMemory(type)) {
        return;
    }
    try {
        const familiar = await familiarFor(card);
        if (!familiar) {
            return;
        }
        if (type !== 'swipe' && type !== 'continue') { // what is to be replaced stays until it is
            await keepChat();
        }
        const { chatId, name1 } = context();
        const about = { familiar, user: name1, channel: channels.get(`${familiar}\n${chatId}`), type };
        const found = await ask('/familiar/context', requestFor(settings(), chat, about));
        addMemory(chat, found.memory);
        pending = found.recalled;
    } catch (error) {
        await tell(error); // the reply is made without memory
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

function onReply(id, type) {
    if (settings().enabled && wantsMemory(type) && type !== 'first_message' && type !== 'command') {
        const recalled = pending;
        pending = null;
        if (recalled) {
            show(id, recalled);
        }
    }
    if (type !== 'first_message') {
        onChange();
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
        change({ [key]: isSwitch ? made.checked : made.value.trim() });
        check().then(showCard);
    });
    return made;
}

/** Show which familiar the card is that is open; another choice binds it anew. */
async function showCard() {
    const card = cards()[0];
    if (!chooser || !card) {
        return;
    }
    const { familiars } = await check();
    const choice = optionsOf(familiars, familiarOf(settings(), card) ?? '');
    choice.addEventListener('change', () => change({ bindings: bind(settings(), card, choice.value) }));
    chooser.textContent = '';
    chooser.append(field(`Familiar of ${card.name}`, choice));
}

/** Keep a card bound that its owner edits here. */
function onEdited(event) {
    const card = event?.detail?.character;
    const bound = card?.avatar ? settings().bindings[card.avatar] : null;
    if (bound) {
        change({ bindings: bind(settings(), card, bound.familiar) });
    }
}

function addPanel() {
    const place = document.querySelector('#extensions_settings2, #extensions_settings');
    if (!place) {
        return;
    }
    const panel = element('div', 'familiar-panel', '');
    light = element('div', 'familiar-light', 'Not asked yet');
    chooser = element('div', 'familiar-card', '');
    panel.append(
        element('h4', '', 'Familiar'),
        light,
        field('Use memory', input('checkbox', 'enabled')),
        field('Address of familiar serve', input('text', 'address')),
        field('Token (if the server needs one)', input('password', 'token')),
        field('Save the chat (turn off if SillyTavern itself is connected to familiar serve)', input('checkbox', 'keep')),
        chooser,
    );
    place.append(panel);
}

const { eventSource, eventTypes } = context();
eventSource.on(eventTypes.CHARACTER_MESSAGE_RENDERED, onReply);
for (const name of ['MESSAGE_SWIPED', 'MESSAGE_UPDATED', 'MESSAGE_DELETED', 'MESSAGE_SWIPE_DELETED', 'USER_MESSAGE_RENDERED', 'GENERATION_STOPPED', 'GENERATION_ENDED']) {
    if (eventTypes[name]) {
        eventSource.on(eventTypes[name], onChange);
    }
}
eventSource.on(eventTypes.CHARACTER_EDITED, onEdited);
eventSource.on(eventTypes.CHAT_CHANGED, () => showCard());
for (const name of ['CHAT_CHANGED', 'USER_MESSAGE_RENDERED', 'CHARACTER_MESSAGE_RENDERED', 'MORE_MESSAGES_LOADED', 'GENERATION_ENDED']) {
    if (eventTypes[name]) {
        eventSource.on(eventTypes[name], () => setTimeout(markMessages));
    }
}
addPanel();
if (settings().enabled) {
    check();
}
