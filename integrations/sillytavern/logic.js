// What the extension decides, without SillyTavern or a page: values in, values out.

export const DEFAULTS = Object.freeze({
    enabled: true,
    address: 'http://127.0.0.1:8765',
    token: '',
    familiar: '',
    keep: true,
    timeoutMs: 4000,
});

const MOST_MESSAGES = 60;
const NOT_ASKED = new Set(['quiet', 'impersonate']);

/** Tell whether memory is wanted for a kind of generation. */
export function wantsMemory(type) {
    return !NOT_ASKED.has(type ?? '');
}

/** Return the familiar of a character: the one that is set, else the character's name as an id. */
export function familiarOf(settings, character) {
    if (settings.familiar) {
        return settings.familiar;
    }
    const words = (character ?? '').normalize('NFC').toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu);
    return words ? words.join('-') : '';
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

/** Return the request for a chat. `who` has character, user, chatId and type. */
export function requestFor(settings, chat, who) {
    const headers = { 'Content-Type': 'application/json', 'X-Familiar-Type': who.type || 'normal' };
    if (who.chatId) {
        headers['X-Familiar-Channel'] = encodeURIComponent(`sillytavern-${who.chatId}`);
    }
    if (who.user) {
        headers['X-Familiar-User-Name'] = encodeURIComponent(who.user);
    }
    if (settings.token) {
        headers.Authorization = `Bearer ${settings.token}`;
    }
    const body = { model: familiarOf(settings, who.character), messages: messagesOf(chat) };
    return { method: 'POST', headers, body: JSON.stringify(body) };
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
        const score = piece.score === null ? '' : ` (${piece.score.toFixed(2)})`;
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
