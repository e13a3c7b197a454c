// What the extension decides, without SillyTavern or a page: values in, values out.

export const DEFAULTS = Object.freeze({
    enabled: true,
    address: 'http://127.0.0.1:8765',
    token: '',
    bindings: Object.freeze({}), // picture of a card -> { digest, familiar }; an empty familiar: none
    keep: true,
    timeoutMs: 4000,
});

const MOST_MESSAGES = 60;
const NOT_ASKED = new Set(['quiet', 'impersonate']);
const CARD_TEXTS = ['name', 'description', 'personality', 'scenario', 'first_mes', 'mes_example'];
const LINE_FIELDS = ['name', 'is_user', 'is_system', 'send_date', 'mes', 'swipes', 'swipe_id'];

/** Tell whether memory is wanted for a kind of generation. */
export function wantsMemory(type) {
    return !NOT_ASKED.has(type ?? '');
}

/** Return the origin to send requests to; throw what to type instead, if the address has none. */
export function originOf(address, page = '') {
    const text = address.trim();
    if (!/^https?:\/\/[^/]/i.test(text)) {
        throw new Error(`Write the address of familiar serve with http://, e.g. ${DEFAULTS.address}`);
    }
    const url = new URL(text);
    if (url.origin === page) {
        throw new Error(`${url.origin} is SillyTavern's own address; familiar serve prints its own, `
            + `usually ${DEFAULTS.address}`);
    }
    return `${url.origin}${url.pathname.replace(/\/+(v1\/*)?$/, '')}`;
}

/** Return a digest of what a card says of its character. */
export function digestOf(card) {
    let [a, b] = [0x9e3779b9, 0x85ebca6b];
    for (const char of JSON.stringify(CARD_TEXTS.map((field) => card.data?.[field] ?? card[field] ?? ''))) {
        a = Math.imul(a ^ char.codePointAt(0), 0x01000193);
        b = Math.imul(b ^ char.codePointAt(0), 0x5bd1e995) ^ (b >>> 15);
    }
    return `${(a >>> 0).toString(16)}-${(b >>> 0).toString(16)}`;
}

/** Return the familiar that a card is bound to; '': it has none; null: nobody was asked yet. */
export function familiarOf(settings, card) {
    const bound = card?.avatar ? settings.bindings[card.avatar] : undefined;
    return bound && bound.digest === digestOf(card) ? bound.familiar : null;
}

/** Return the bindings with one card bound to a familiar. */
export function bind(settings, card, familiar) {
    return { ...settings.bindings, [card.avatar]: { digest: digestOf(card), familiar } };
}

/** Return which familiar to propose for a card: the one called as it is, if there is one. */
export function proposalFor(card, familiars) {
    const words = (card.name ?? '').normalize('NFC').toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu);
    const wanted = words ? words.join('-') : '';
    return familiars.includes(wanted) ? wanted : '';
}

/** Return SillyTavern's messages as those of a request, the newest `MOST_MESSAGES` of them. */
export function messagesOf(chat) {
    return chat
        .filter((message) => !message.is_system && (message.mes ?? '').trim())
        .slice(-MOST_MESSAGES)
        .map((message) => ({
            role: message.is_user ? 'user' : 'assistant',
            content: message.mes,
        }));
}

function headersOf(settings) {
    const headers = { 'Content-Type': 'application/json' };
    if (settings.token) {
        headers.Authorization = `Bearer ${settings.token}`;
    }
    return headers;
}

/** Return the request for memory. `about` has familiar, user, channel and type. */
export function requestFor(settings, chat, about) {
    const headers = { ...headersOf(settings), 'X-Familiar-Type': about.type || 'normal' };
    if (about.channel) {
        headers['X-Familiar-Channel'] = encodeURIComponent(about.channel);
    }
    if (about.user) {
        headers['X-Familiar-User-Name'] = encodeURIComponent(about.user);
    }
    const body = { model: about.familiar, messages: messagesOf(chat) };
    return { method: 'POST', headers, body: JSON.stringify(body) };
}

/** Tell whether a chat holds more than its greeting. */
export function hasBegun(chat) {
    return chat.length > 1 || chat.some((message) => message.is_user);
}

/** Tell whether a message left the last prompt, by the mark that SillyTavern sets at the first one
    that did not. */
export function isOutOfPrompt(id, metadata) {
    const first = Number(metadata?.lastInContextMessageId ?? 0);
    return Number.isFinite(first) && id < first;
}

/** Return the request that keeps a chat as it is now. `about` has familiar, name, directory,
    group, user, character, metadata and, if one message is to be remembered, its index. */
export function chatRequest(settings, chat, about) {
    const head = { user_name: about.user, character_name: about.character, chat_metadata: {} };
    if (about.metadata?.main_chat) {
        head.chat_metadata.main_chat = about.metadata.main_chat;
    }
    const lines = chat.map((message) => {
        const line = {};
        for (const field of LINE_FIELDS) {
            if (message[field] !== undefined) {
                line[field] = message[field];
            }
        }
        return message.extra?.type ? { ...line, extra: { type: message.extra.type } } : line;
    });
    const body = {
        model: about.familiar,
        chat: about.name,
        directory: about.directory,
        group: about.group,
        lines: [head, ...lines],
    };
    if (about.remember !== undefined) {
        body.remember = about.remember + 1; // the header is the first line
    }
    return { method: 'POST', headers: headersOf(settings), body: JSON.stringify(body) };
}

/** Find out what is wrong between this page and the server. Return { ok, words, familiars }.

    `ask(path, options)` fetches from the server; `page` is the origin of this page. */
export async function diagnose(settings, ask, page) {
    const wrong = (words) => ({ ok: false, words, familiars: [] });
    let origin;
    try {
        origin = originOf(settings.address, page);
    } catch (error) {
        return wrong(error.message);
    }
    let health;
    try {
        health = await ask(`${origin}/health`, {});
    } catch {
        return wrong(await unreachable(origin, ask, page));
    }
    if (health.status === 421) {
        return wrong(`The server does not answer to that name. In serve.toml: hosts = ["${new URL(origin).host}"]`);
    }
    const status = await health.json().catch(() => null);
    if (status?.status !== 'ok') {
        return wrong(`The server at ${origin} is not familiar serve; use the address that familiar serve printed`);
    }
    return askModels(settings, ask, origin, wrong);
}

async function askModels(settings, ask, origin, wrong) {
    let response;
    try {
        response = await ask(`${origin}/v1/models`, { headers: headersOf(settings) });
    } catch {
        return wrong(`The server at ${origin} stopped answering; start it again: familiar serve`);
    }
    if (response.status === 401) {
        const what = settings.token ? 'The token is wrong' : 'The server needs a token';
        return wrong(`${what}: paste the first line of the file that serve.toml names in token_file = "tokens.txt"`);
    }
    const models = await response.json().catch(() => null);
    if (!response.ok || !Array.isArray(models?.data)) {
        return wrong(models?.error?.message ?? `The server answered HTTP ${response.status}`);
    }
    const familiars = models.data.map((model) => model.id).filter((id) => !id.endsWith('+memory'));
    if (!familiars.length) {
        return wrong('The server has no familiar yet; make one: familiar init NAME');
    }
    return { ok: true, words: `Connected: ${familiars.join(', ')}`, familiars };
}

async function unreachable(origin, ask, page) {
    try {
        await ask(`${origin}/health`, { mode: 'no-cors' });
    } catch {
        return page.startsWith('https:') && origin.startsWith('http:')
            ? `A page under https cannot reach ${origin}: open SillyTavern under http, or put a proxy with TLS before the server`
            : `Nothing responds at ${origin}: start it with familiar serve, or set host and port in serve.toml`;
    }
    return `The server does not allow this page. In serve.toml: origins = ["${page}"]`;
}

/** Put memory at the beginning of the newest message of the person's, in a copy of that message. */
export function addMemory(chat, memory) {
    const last = chat.findLastIndex((message) => message.is_user && !message.is_system);
    if (!memory || last < 0) {
        return false;
    }
    const copy = structuredClone(chat[last]);
    copy.mes = `${memory}\n\n${copy.mes}`;
    chat[last] = copy;
    return true;
}

/** Return one line for each piece that was recalled, for a person. */
export function linesOf(recalled) {
    return recalled.map((piece) => {
        const lines = piece.lines ? `:${piece.lines[0]}-${piece.lines[1]}` : '';
        const turns = piece.turns ? `turns ${piece.turns[0]}-${piece.turns[1]}` : '';
        const where = piece.path ? `${piece.path}${lines}` : piece.from || turns || piece.source;
        const score = Number.isFinite(piece.score) ? ` (${piece.score.toFixed(2)})` : '';
        return { where: `${where}${score}`, cause: piece.cause ?? '', text: piece.text };
    });
}

/** Return what stands under a message. */
export function summaryOf(recalled) {
    if (!recalled.length) {
        return 'Nothing recalled';
    }
    return recalled.length === 1 ? '1 memory recalled' : `${recalled.length} memories recalled`;
}
