// Runs SillyTavern's own world-info.js, without its page, over conversations.
//
// node world_info.mjs PATH/TO/world-info.js < cases.json > activations.json
// A case is {entries, chat: [{name, text, isUser}], character}. For each: what its last message
// activates (`named`), and what any further primary keys in it could (`possible`), as lists of uids,
// one of each for every repetition, since chance takes part.

import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const REPEATS = 16;
const anything = new Proxy(function () {}, {
    get: (_, name) => (name === Symbol.toPrimitive ? () => '' : anything),
    apply: () => anything,
    construct: () => anything,
});
globalThis.$ = anything;
for (const name of ['log', 'debug', 'warn', 'error']) console[name] = () => {};

const context = { extensionPrompts: {}, tagMap: {}, characters: [], characterId: 0 };
const metadata = {};
let character = 'mira';
class StructuredCloneMap extends Map {
    constructor() { super(); }
    get(key) { return structuredClone(super.get(key)); }
}
function hash(text) {
    let found = 0;
    for (const letter of text) found = (Math.imul(found, 31) + letter.codePointAt(0)) | 0;
    return found;
}
const known = {
    StructuredCloneMap,
    chat_metadata: metadata,
    characters: context.characters,
    this_chid: 0,
    power_user: {},
    getContext: () => context,
    getCharaFilename: () => character,
    getTagKeyForEntity: () => `${character}.png`,
    getTokenCountAsync: async text => Math.ceil(text.length / 4),
    getRegexedString: text => text,
    getStringHash: hash,
    getExtensionPromptByName: async key => context.extensionPrompts[key].value,
    substituteParams: text => text.replaceAll('{{char}}', character).replaceAll('{{user}}', 'Ulla'),
    escapeRegex: text => text.replace(/[/\-\\^$*+?.()|[\]{}]/g, '\\$&'),
    eventSource: { emit: async () => {}, on: () => {} },
    shouldWIAddPrompt: false,
    GENERATION_TYPE_TRIGGERS: ['normal', 'continue', 'impersonate', 'swipe', 'regenerate', 'quiet'],
};
globalThis.worldInfoStubs = new Proxy(known, { get: (own, name) => own[name] ?? anything });

async function load(path) {
    const source = readFileSync(path, 'utf8').replace(
        /^import \{([^}]*)\} from '[^']*';$/gm,
        (_, names) => `const {${names.replaceAll(' as ', ': ')}} = globalThis.worldInfoStubs;`,
    );
    const file = join(mkdtempSync(join(tmpdir(), 'world-info-')), 'world-info.mjs');
    writeFileSync(file, source);
    return import(pathToFileURL(file));
}

const module = await load(process.argv[2]);

async function scan(chat, recursive, said = '') {
    context.extensionPrompts = said ? { said: { scan: true, value: said } } : {};
    module.updateWorldInfoSettings({ world_info_recursive: recursive, world_info_budget: 100 }, ['B']);
    const texts = chat.map(one => `${one.name}: ${one.text}`).reverse();
    const found = await module.checkWorldInfo(texts, 1e9, false, { trigger: 'normal' });
    return [...found.allActivatedEntries].map(entry => entry.uid).sort((a, b) => a - b);
}

async function follow(one) {
    character = one.character;
    context.tagMap = { [`${character}.png`]: one.tags };
    module.worldInfoCache.set('B', { entries: one.entries });
    const entries = Object.values(one.entries);
    const named = [], possible = [];
    for (let repeat = 0; repeat < REPEATS; repeat++) {
        metadata.timedWorldInfo = {};
        for (let end = 1; end < one.chat.length; end++) {
            if (one.chat[end - 1].isUser) await scan(one.chat.slice(0, end), false);
        }
        const before = structuredClone(metadata.timedWorldInfo);
        named.push(await scan(one.chat, false));
        const samples = entries.flatMap(entry => entry.samples);
        const words = [samples, ...entries.map(e => e.samples), ...[...new Set(samples)].map(s => [s])];
        const could = new Set();
        for (const said of words) {
            metadata.timedWorldInfo = structuredClone(before);
            for (const uid of await scan(one.chat, true, said.join(' '))) could.add(uid);
        }
        possible.push([...could]);
    }
    return { named, possible };
}

const found = [];
for (const one of JSON.parse(readFileSync(0, 'utf8'))) found.push(await follow(one));
process.stdout.write(JSON.stringify(found));
