-- The history. A statement ends at a blank line.

CREATE TABLE turns (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    channel_id TEXT NOT NULL,
    author_platform TEXT,
    author_user_id TEXT,
    author_username TEXT,
    author_display_name TEXT,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system')),
    content TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    modality TEXT NOT NULL,
    source TEXT NOT NULL,
    partial INTEGER NOT NULL DEFAULT 0,
    hidden INTEGER NOT NULL DEFAULT 0,
    CHECK ((author_platform IS NULL) = (author_user_id IS NULL))
);

CREATE INDEX turns_of_channel ON turns (channel_id, id);

CREATE TRIGGER turns_are_never_changed BEFORE UPDATE ON turns
    BEGIN SELECT RAISE(ABORT, 'a turn is never changed'); END;

CREATE TRIGGER turns_are_never_deleted BEFORE DELETE ON turns
    BEGIN SELECT RAISE(ABORT, 'a turn is never deleted'); END;

CREATE TRIGGER turns_are_never_replaced BEFORE INSERT ON turns
    WHEN EXISTS (SELECT 1 FROM turns WHERE id = NEW.id)
    BEGIN SELECT RAISE(ABORT, 'a turn is never replaced'); END;

CREATE TABLE watermarks (
    name TEXT PRIMARY KEY,
    turn_id INTEGER NOT NULL
);

CREATE TABLE speakers (
    channel_id TEXT NOT NULL,
    author_platform TEXT NOT NULL,
    author_user_id TEXT NOT NULL,
    turns INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    PRIMARY KEY (channel_id, author_platform, author_user_id)
) WITHOUT ROWID;

CREATE INDEX speakers_of_channel ON speakers (channel_id, last_id);

CREATE TRIGGER speakers_are_counted AFTER INSERT ON turns
    WHEN NEW.author_platform IS NOT NULL
    BEGIN
        INSERT INTO speakers VALUES
            (NEW.channel_id, NEW.author_platform, NEW.author_user_id, 1, NEW.id)
        ON CONFLICT DO UPDATE SET turns = turns + 1, last_id = max(last_id, excluded.last_id);
    END;

CREATE TABLE summaries (
    scope TEXT NOT NULL,
    last_turn_id INTEGER NOT NULL,
    text TEXT NOT NULL,
    made_at_ms INTEGER NOT NULL,
    model TEXT NOT NULL,
    cut INTEGER NOT NULL,
    PRIMARY KEY (scope, last_turn_id)
);

CREATE TABLE summary_channels (
    scope TEXT NOT NULL,
    channel_id TEXT NOT NULL,
    PRIMARY KEY (scope, channel_id)
) WITHOUT ROWID;

CREATE TABLE summary_state (
    scope TEXT PRIMARY KEY,
    wanted_id INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE chats (
    id INTEGER PRIMARY KEY,
    channel_id TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    format TEXT NOT NULL,
    name TEXT NOT NULL,
    head TEXT NOT NULL,
    beginning BLOB
);

CREATE INDEX chats_of_channel ON chats (channel_id, id);

CREATE TABLE turn_extras (
    turn_id INTEGER PRIMARY KEY,
    chat_id INTEGER NOT NULL,
    identity BLOB NOT NULL,
    estimated INTEGER NOT NULL,
    raw TEXT NOT NULL,
    nth INTEGER NOT NULL DEFAULT 1
);

CREATE INDEX turn_extras_by_identity ON turn_extras (identity);

CREATE TRIGGER turn_extras_are_never_changed BEFORE UPDATE ON turn_extras
    BEGIN SELECT RAISE(ABORT, 'what a source said is never changed'); END;

CREATE TRIGGER turn_extras_are_never_deleted BEFORE DELETE ON turn_extras
    BEGIN SELECT RAISE(ABORT, 'what a source said is never deleted'); END;

CREATE TABLE elsewhere (
    turn_id INTEGER PRIMARY KEY,
    instance TEXT NOT NULL,
    id_there INTEGER NOT NULL,
    after INTEGER NOT NULL,
    more TEXT NOT NULL DEFAULT '',
    UNIQUE (instance, id_there)
);

CREATE TRIGGER elsewhere_is_never_changed BEFORE UPDATE ON elsewhere
    BEGIN SELECT RAISE(ABORT, 'the origin of a turn is never changed'); END;

CREATE TRIGGER elsewhere_is_never_deleted BEFORE DELETE ON elsewhere
    BEGIN SELECT RAISE(ABORT, 'the origin of a turn is never deleted'); END;

CREATE TABLE sync_state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE turn_files (
    instance TEXT NOT NULL,
    rel_path TEXT NOT NULL,
    through INTEGER NOT NULL,
    PRIMARY KEY (instance, rel_path)
) WITHOUT ROWID;

CREATE TABLE lines_waiting (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    instance TEXT NOT NULL,
    line TEXT NOT NULL,
    needs_instance TEXT NOT NULL,
    needs_id INTEGER NOT NULL,
    UNIQUE (instance, line)
);

CREATE INDEX lines_waiting_for ON lines_waiting (needs_instance, needs_id);

CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject TEXT,
    turn_id INTEGER,
    value,
    at_ms INTEGER,
    clock INTEGER NOT NULL,
    instance TEXT,
    id_there INTEGER,
    UNIQUE (instance, id_there)
);

CREATE INDEX events_of_turn ON events (turn_id) WHERE turn_id IS NOT NULL;

CREATE INDEX events_of_subject ON events (kind, subject) WHERE subject IS NOT NULL;

CREATE INDEX events_by_clock ON events (clock);

CREATE TRIGGER events_are_never_changed BEFORE UPDATE OF kind, subject, turn_id, value, at_ms, clock ON events
    BEGIN SELECT RAISE(ABORT, 'an event is never changed'); END;

CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'an event is never deleted'); END;

CREATE TABLE branches (
    channel_id TEXT PRIMARY KEY,
    parent TEXT NOT NULL,
    turn_id INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX branches_of_parent ON branches (parent);

CREATE TABLE set_aside (
    turn_id INTEGER PRIMARY KEY,
    superseded_by INTEGER NOT NULL DEFAULT 0,
    withdrawn INTEGER NOT NULL DEFAULT 0,
    hidden INTEGER
);

CREATE TABLE places (
    turn_id INTEGER PRIMARY KEY,
    channel_id TEXT NOT NULL,
    place INTEGER NOT NULL
);

CREATE INDEX places_by_place ON places (place, channel_id);

CREATE INDEX places_of_channel ON places (channel_id, place);

CREATE TABLE slots (
    turn_id INTEGER PRIMARY KEY,
    slot INTEGER NOT NULL,
    is_node INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX slots_by_slot ON slots (slot);

CREATE TABLE channels_set_aside (channel_id TEXT PRIMARY KEY) WITHOUT ROWID;

CREATE VIEW shown AS SELECT * FROM turns
    WHERE NOT EXISTS (SELECT 1 FROM set_aside
        WHERE turn_id = turns.id AND (superseded_by OR withdrawn))
    AND channel_id NOT IN (SELECT channel_id FROM channels_set_aside);

CREATE VIEW standing AS SELECT * FROM shown
    WHERE NOT coalesce((SELECT hidden FROM set_aside WHERE turn_id = shown.id), hidden);

CREATE INDEX turns_by_time ON turns (at_ms, author_platform, author_user_id);

CREATE TABLE unread (turn_id INTEGER PRIMARY KEY, imported INTEGER NOT NULL);

CREATE INDEX unread_said_here ON unread (turn_id) WHERE NOT imported;

CREATE TRIGGER turns_are_unread AFTER INSERT ON turns
    BEGIN INSERT INTO unread VALUES (NEW.id, NEW.source = 'import-chat'); END;

-- No row: nobody has spoken in the channel yet. NULL: several people have.
CREATE TABLE only_speakers (
    channel_id TEXT PRIMARY KEY,
    platform TEXT,
    user_id TEXT
) WITHOUT ROWID;

CREATE TABLE one_to_one (
    turn_id INTEGER PRIMARY KEY,
    platform TEXT NOT NULL,
    user_id TEXT NOT NULL
);

-- The owners' accounts. An owner who enters somebody's conversation leaves it theirs.
CREATE TABLE owners (
    platform TEXT NOT NULL,
    user_id TEXT NOT NULL,
    PRIMARY KEY (platform, user_id)
) WITHOUT ROWID;

INSERT INTO owners VALUES ('cli', 'user');

-- What the familiar says first is said to whoever speaks first; until then, to the owner. Once one
-- machine has told another so, it stays so: whatever the order in which machines hear of speakers,
-- they come to the same. A branch starts with the state of its parent at the branch point. In `cli`,
-- the owner's own room, what the owner says and is told stays theirs, also where a command spoke
-- there as somebody else.
CREATE TRIGGER only_speakers_are_noted AFTER INSERT ON turns
BEGIN
    INSERT OR IGNORE INTO only_speakers SELECT NEW.channel_id,
        coalesce(said.platform, parent.platform), coalesce(said.user_id, parent.user_id)
        FROM branches
        LEFT JOIN one_to_one AS said ON said.turn_id = branches.turn_id
        JOIN only_speakers AS parent ON parent.channel_id = branches.parent
        WHERE branches.channel_id = NEW.channel_id;
    INSERT OR REPLACE INTO one_to_one
        SELECT id, NEW.author_platform, NEW.author_user_id FROM turns
        WHERE NEW.author_platform IS NOT NULL AND turns.channel_id = iif(EXISTS
            (SELECT * FROM only_speakers WHERE channel_id = NEW.channel_id), NULL, NEW.channel_id)
        AND (id = NEW.id OR id NOT IN (SELECT turn_id FROM elsewhere) AND id >
            (SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM sync_state
            WHERE name = 'told' OR name GLOB 'formerly:*'));
    INSERT OR IGNORE INTO one_to_one SELECT NEW.id, 'cli', 'user'
        WHERE NEW.author_platform IS NULL
        AND NEW.channel_id NOT IN (SELECT channel_id FROM only_speakers);
    INSERT OR IGNORE INTO only_speakers
        SELECT NEW.channel_id, NEW.author_platform, NEW.author_user_id
        WHERE NEW.author_platform IS NOT NULL;
    UPDATE only_speakers SET (platform, user_id) =
        (SELECT NEW.author_platform, NEW.author_user_id
        WHERE (only_speakers.platform, only_speakers.user_id) IN owners)
        WHERE channel_id = NEW.channel_id AND platform IS NOT NULL
        AND (platform, user_id) != (NEW.author_platform, NEW.author_user_id)
        AND (NEW.author_platform, NEW.author_user_id) NOT IN owners;
    INSERT OR IGNORE INTO one_to_one SELECT NEW.id, 'cli', 'user'
        WHERE NEW.channel_id = 'cli' AND EXISTS (SELECT * FROM only_speakers
            WHERE channel_id = 'cli' AND platform IS NOT NULL
            AND (platform, user_id) NOT IN owners)
        AND EXISTS (SELECT * FROM turns
            WHERE id = iif(NEW.author_platform IS NULL,
                (SELECT max(id) FROM turns WHERE channel_id = 'cli' AND id < NEW.id), NEW.id)
            AND (author_platform, author_user_id) IN owners);
    INSERT OR IGNORE INTO one_to_one SELECT NEW.id, platform, user_id FROM only_speakers
        WHERE channel_id = NEW.channel_id AND platform IS NOT NULL;
END;

CREATE TABLE message_ids (
    channel_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    turn_id INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (channel_id, message_id)
);

CREATE TABLE replies (
    turn_id INTEGER PRIMARY KEY,
    reply_to INTEGER NOT NULL
);

CREATE INDEX replies_by_question ON replies (reply_to);

CREATE TRIGGER message_ids_are_never_changed BEFORE UPDATE ON message_ids
    BEGIN SELECT RAISE(ABORT, 'what a turn is to others is never changed'); END;

CREATE TRIGGER message_ids_are_never_deleted BEFORE DELETE ON message_ids
    BEGIN SELECT RAISE(ABORT, 'what a turn is to others is never deleted'); END;

CREATE TRIGGER replies_are_never_changed BEFORE UPDATE ON replies
    BEGIN SELECT RAISE(ABORT, 'what a turn is to others is never changed'); END;

CREATE TRIGGER replies_are_never_deleted BEFORE DELETE ON replies
    BEGIN SELECT RAISE(ABORT, 'what a turn is to others is never deleted'); END;

CREATE INDEX chats_by_beginning ON chats (beginning);

CREATE INDEX chats_by_name ON chats (name, format);

-- Of each text that came through the server.
CREATE INDEX turns_by_beginning ON turns (substr(content, 1, 24)) WHERE source = 'serve';
