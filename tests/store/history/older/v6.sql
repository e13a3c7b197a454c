BEGIN TRANSACTION;
CREATE TABLE branches (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        channel_id TEXT NOT NULL,
        parent TEXT NOT NULL,
        turn_id INTEGER NOT NULL,
        place INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    );
CREATE TABLE channel_marks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        channel_id TEXT NOT NULL,
        withdrawn INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    );
CREATE TABLE channels_set_aside (channel_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE chats (
        id INTEGER PRIMARY KEY,
        channel_id TEXT NOT NULL,
        key TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        format TEXT NOT NULL,
        name TEXT NOT NULL,
        head TEXT NOT NULL
    );
CREATE TABLE marks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        turn_id INTEGER NOT NULL,
        mark TEXT NOT NULL CHECK (mark IN ('superseded', 'withdrawn', 'hidden')),
        value INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    );
CREATE TABLE places (
        turn_id INTEGER PRIMARY KEY,
        channel_id TEXT NOT NULL,
        place INTEGER NOT NULL
    );
CREATE TABLE set_aside (
        turn_id INTEGER PRIMARY KEY,
        superseded_by INTEGER NOT NULL DEFAULT 0,
        withdrawn INTEGER NOT NULL DEFAULT 0,
        hidden INTEGER
    );
CREATE TABLE speakers (
        channel_id TEXT NOT NULL,
        author_platform TEXT NOT NULL,
        author_user_id TEXT NOT NULL,
        turns INTEGER NOT NULL,
        last_id INTEGER NOT NULL,
        PRIMARY KEY (channel_id, author_platform, author_user_id)
    ) WITHOUT ROWID;
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
CREATE TABLE turn_extras (
        turn_id INTEGER PRIMARY KEY,
        chat_id INTEGER NOT NULL,
        identity BLOB NOT NULL,
        estimated INTEGER NOT NULL,
        raw TEXT NOT NULL
    );
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
        partial INTEGER NOT NULL DEFAULT 0, hidden INTEGER NOT NULL DEFAULT 0,
        CHECK ((author_platform IS NULL) = (author_user_id IS NULL))
    );
CREATE TABLE watermarks (
        name TEXT PRIMARY KEY,
        turn_id INTEGER NOT NULL
    );
CREATE INDEX turns_of_channel ON turns (channel_id, id);
CREATE TRIGGER turns_are_never_changed BEFORE UPDATE ON turns
        BEGIN SELECT RAISE(ABORT, 'a turn is never changed'); END;
CREATE TRIGGER turns_are_never_deleted BEFORE DELETE ON turns
        BEGIN SELECT RAISE(ABORT, 'a turn is never deleted'); END;
CREATE TRIGGER turns_are_never_replaced BEFORE INSERT ON turns
        WHEN EXISTS (SELECT 1 FROM turns WHERE id = NEW.id)
        BEGIN SELECT RAISE(ABORT, 'a turn is never replaced'); END;
CREATE INDEX speakers_of_channel ON speakers (channel_id, last_id);
CREATE TRIGGER speakers_are_counted AFTER INSERT ON turns
        WHEN NEW.author_platform IS NOT NULL
        BEGIN
            INSERT INTO speakers VALUES
                (NEW.channel_id, NEW.author_platform, NEW.author_user_id, 1, NEW.id)
            ON CONFLICT DO UPDATE SET turns = turns + 1, last_id = max(last_id, excluded.last_id);
        END;
CREATE INDEX chats_of_channel ON chats (channel_id, id);
CREATE INDEX turn_extras_by_identity ON turn_extras (identity);
CREATE TRIGGER turn_extras_are_never_changed BEFORE UPDATE ON turn_extras
        BEGIN SELECT RAISE(ABORT, 'what a source said is never changed'); END;
CREATE TRIGGER turn_extras_are_never_deleted BEFORE DELETE ON turn_extras
        BEGIN SELECT RAISE(ABORT, 'what a source said is never deleted'); END;
CREATE INDEX places_by_place ON places (place, channel_id);
CREATE TRIGGER marks_are_summed_up AFTER INSERT ON marks
        BEGIN
            INSERT OR IGNORE INTO set_aside (turn_id) VALUES (NEW.turn_id);
            UPDATE set_aside SET
                superseded_by = iif(NEW.mark = 'superseded', NEW.value, superseded_by),
                withdrawn = iif(NEW.mark = 'withdrawn', NEW.value, withdrawn),
                hidden = iif(NEW.mark = 'hidden', NEW.value, hidden)
            WHERE turn_id = NEW.turn_id;
            INSERT OR REPLACE INTO places SELECT NEW.value, channel_id,
                coalesce((SELECT place FROM places WHERE turn_id = NEW.turn_id), NEW.turn_id)
            FROM turns WHERE id = NEW.value AND NEW.mark = 'superseded';
        END;
CREATE TRIGGER channel_marks_are_summed_up AFTER INSERT ON channel_marks
        BEGIN
            DELETE FROM channels_set_aside WHERE channel_id = NEW.channel_id;
            INSERT INTO channels_set_aside SELECT NEW.channel_id WHERE NEW.withdrawn;
        END;
CREATE VIEW shown AS SELECT * FROM turns
        WHERE NOT EXISTS (SELECT 1 FROM set_aside
            WHERE turn_id = turns.id AND (superseded_by OR withdrawn))
        AND channel_id NOT IN (SELECT channel_id FROM channels_set_aside);
CREATE VIEW standing AS SELECT * FROM shown
        WHERE NOT coalesce((SELECT hidden FROM set_aside WHERE turn_id = shown.id), hidden);
CREATE TRIGGER marks_are_never_changed BEFORE UPDATE ON marks
    BEGIN SELECT RAISE(ABORT, 'a mark is never changed'); END;
CREATE TRIGGER marks_are_never_deleted BEFORE DELETE ON marks
    BEGIN SELECT RAISE(ABORT, 'a mark is never deleted'); END;
CREATE TRIGGER channel_marks_are_never_changed BEFORE UPDATE ON channel_marks
    BEGIN SELECT RAISE(ABORT, 'a mark is never changed'); END;
CREATE TRIGGER channel_marks_are_never_deleted BEFORE DELETE ON channel_marks
    BEGIN SELECT RAISE(ABORT, 'a mark is never deleted'); END;
CREATE INDEX branches_of_channel ON branches (channel_id, id);
CREATE INDEX branches_of_parent ON branches (parent, channel_id);
CREATE INDEX places_of_channel ON places (channel_id, place);
CREATE TRIGGER branches_are_never_changed BEFORE UPDATE ON branches
        BEGIN SELECT RAISE(ABORT, 'a branch is never changed'); END;
CREATE TRIGGER branches_are_never_deleted BEFORE DELETE ON branches
        BEGIN SELECT RAISE(ABORT, 'a branch is never deleted'); END;
DELETE FROM "sqlite_sequence";
COMMIT;
