PRAGMA application_id = 1717661033;
PRAGMA user_version = 10;
BEGIN TRANSACTION;
CREATE TABLE branches (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        channel_id TEXT NOT NULL,
        parent TEXT NOT NULL,
        turn_id INTEGER NOT NULL,
        place INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    );
INSERT INTO "branches" VALUES(1,'b2','cli',6,6,1795454742844);
INSERT INTO "branches" VALUES(2,'b2','cli',2,2,1795454742809);
CREATE TABLE channel_marks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        channel_id TEXT NOT NULL,
        withdrawn INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    );
INSERT INTO "channel_marks" VALUES(1,'side',1,1795454742816);
INSERT INTO "channel_marks" VALUES(2,'cli',1,1795454742912);
CREATE TABLE channels_set_aside (channel_id TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO "channels_set_aside" VALUES('cli');
INSERT INTO "channels_set_aside" VALUES('side');
CREATE TABLE chats (
        id INTEGER PRIMARY KEY,
        channel_id TEXT NOT NULL,
        key TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        format TEXT NOT NULL,
        name TEXT NOT NULL,
        head TEXT NOT NULL
    );
INSERT INTO "chats" VALUES(1,'chat','key','import','plain','chat.jsonl','{}');
CREATE TABLE elsewhere (
        turn_id INTEGER PRIMARY KEY,
        instance TEXT NOT NULL,
        id_there INTEGER NOT NULL,
        after INTEGER NOT NULL,
        more TEXT NOT NULL DEFAULT '',
        UNIQUE (instance, id_there)
    );
INSERT INTO "elsewhere" VALUES(1,'desk-b2',1,0,'');
INSERT INTO "elsewhere" VALUES(2,'desk-b2',2,1,'');
INSERT INTO "elsewhere" VALUES(5,'desk-b2',3,2,'');
INSERT INTO "elsewhere" VALUES(6,'desk-b2',4,5,'');
INSERT INTO "elsewhere" VALUES(7,'desk-b2',5,6,'');
INSERT INTO "elsewhere" VALUES(11,'lap-a1',3,0,'');
INSERT INTO "elsewhere" VALUES(12,'lap-a1',4,2,'');
INSERT INTO "elsewhere" VALUES(13,'lap-a1',5,0,'');
INSERT INTO "elsewhere" VALUES(14,'lap-a1',8,4,'');
INSERT INTO "elsewhere" VALUES(15,'lap-a1',10,14,'');
CREATE TABLE facts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        row_id INTEGER NOT NULL,
        clock INTEGER NOT NULL,
        instance TEXT,
        id_there INTEGER,
        UNIQUE (instance, id_there)
    );
INSERT INTO "facts" VALUES(1,'channel mark',1,1,NULL,NULL);
INSERT INTO "facts" VALUES(2,'mark',1,1,'desk-b2',1);
INSERT INTO "facts" VALUES(3,'mark',2,2,NULL,NULL);
INSERT INTO "facts" VALUES(4,'branch',1,2,'desk-b2',2);
INSERT INTO "facts" VALUES(5,'chat',1,3,NULL,NULL);
INSERT INTO "facts" VALUES(6,'channel mark',2,4,NULL,NULL);
INSERT INTO "facts" VALUES(7,'mark',3,1,'lap-a1',1);
INSERT INTO "facts" VALUES(8,'mark',4,2,'lap-a1',2);
INSERT INTO "facts" VALUES(9,'branch',2,3,'lap-a1',3);
CREATE TABLE lines_waiting (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        instance TEXT NOT NULL,
        line TEXT NOT NULL,
        needs_instance TEXT NOT NULL,
        needs_id INTEGER NOT NULL,
        UNIQUE (instance, line)
    );
CREATE TABLE marks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        turn_id INTEGER NOT NULL,
        mark TEXT NOT NULL CHECK (mark IN ('superseded', 'withdrawn', 'hidden')),
        value INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    );
INSERT INTO "marks" VALUES(1,2,'withdrawn',1,1795454742818);
INSERT INTO "marks" VALUES(2,4,'withdrawn',1,1795454742835);
INSERT INTO "marks" VALUES(3,1,'superseded',11,1795454742760);
INSERT INTO "marks" VALUES(4,11,'superseded',13,1795454742788);
CREATE TABLE message_ids (
        channel_id TEXT NOT NULL,
        message_id TEXT NOT NULL,
        turn_id INTEGER NOT NULL UNIQUE,
        PRIMARY KEY (channel_id, message_id)
    );
CREATE TABLE one_to_one (
        turn_id INTEGER PRIMARY KEY,
        platform TEXT NOT NULL,
        user_id TEXT NOT NULL
    );
INSERT INTO "one_to_one" VALUES(1,'cli','anna');
INSERT INTO "one_to_one" VALUES(2,'cli','anna');
INSERT INTO "one_to_one" VALUES(3,'cli','anna');
INSERT INTO "one_to_one" VALUES(4,'cli','anna');
INSERT INTO "one_to_one" VALUES(5,'cli','anna');
INSERT INTO "one_to_one" VALUES(6,'cli','anna');
INSERT INTO "one_to_one" VALUES(7,'cli','anna');
INSERT INTO "one_to_one" VALUES(8,'cli','anna');
INSERT INTO "one_to_one" VALUES(9,'cli','anna');
INSERT INTO "one_to_one" VALUES(10,'cli','anna');
INSERT INTO "one_to_one" VALUES(11,'cli','anna');
INSERT INTO "one_to_one" VALUES(12,'cli','anna');
INSERT INTO "one_to_one" VALUES(13,'cli','anna');
INSERT INTO "one_to_one" VALUES(14,'cli','anna');
INSERT INTO "one_to_one" VALUES(15,'cli','anna');
CREATE TABLE only_speakers (
        channel_id TEXT PRIMARY KEY,
        platform TEXT,
        user_id TEXT
    ) WITHOUT ROWID;
INSERT INTO "only_speakers" VALUES('b2','cli','anna');
INSERT INTO "only_speakers" VALUES('chat','cli','anna');
INSERT INTO "only_speakers" VALUES('cli','cli','anna');
INSERT INTO "only_speakers" VALUES('side','cli','anna');
CREATE TABLE places (
        turn_id INTEGER PRIMARY KEY,
        channel_id TEXT NOT NULL,
        place INTEGER NOT NULL
    );
INSERT INTO "places" VALUES(3,'cli',7);
INSERT INTO "places" VALUES(4,'side',8);
INSERT INTO "places" VALUES(5,'cli',3);
INSERT INTO "places" VALUES(6,'cli',4);
INSERT INTO "places" VALUES(7,'b2',5);
INSERT INTO "places" VALUES(8,'chat',12);
INSERT INTO "places" VALUES(9,'chat',14);
INSERT INTO "places" VALUES(10,'cli',15);
INSERT INTO "places" VALUES(11,'cli',1);
INSERT INTO "places" VALUES(12,'cli',6);
INSERT INTO "places" VALUES(13,'cli',1);
INSERT INTO "places" VALUES(14,'b2',9);
INSERT INTO "places" VALUES(15,'cli',10);
CREATE TABLE replies (
        turn_id INTEGER PRIMARY KEY,
        reply_to INTEGER NOT NULL
    );
INSERT INTO "replies" VALUES(2,1);
INSERT INTO "replies" VALUES(6,5);
INSERT INTO "replies" VALUES(7,6);
CREATE TABLE set_aside (
        turn_id INTEGER PRIMARY KEY,
        superseded_by INTEGER NOT NULL DEFAULT 0,
        withdrawn INTEGER NOT NULL DEFAULT 0,
        hidden INTEGER
    );
INSERT INTO "set_aside" VALUES(1,11,0,NULL);
INSERT INTO "set_aside" VALUES(2,0,1,NULL);
INSERT INTO "set_aside" VALUES(4,0,1,NULL);
INSERT INTO "set_aside" VALUES(11,13,0,NULL);
CREATE TABLE slots (
        turn_id INTEGER PRIMARY KEY,
        slot INTEGER NOT NULL,
        is_node INTEGER NOT NULL DEFAULT 0
    );
INSERT INTO "slots" VALUES(11,1,0);
INSERT INTO "slots" VALUES(13,1,0);
CREATE TABLE speakers (
        channel_id TEXT NOT NULL,
        author_platform TEXT NOT NULL,
        author_user_id TEXT NOT NULL,
        turns INTEGER NOT NULL,
        last_id INTEGER NOT NULL,
        PRIMARY KEY (channel_id, author_platform, author_user_id)
    ) WITHOUT ROWID;
INSERT INTO "speakers" VALUES('b2','cli','anna',1,14);
INSERT INTO "speakers" VALUES('chat','cli','anna',2,9);
INSERT INTO "speakers" VALUES('cli','cli','anna',4,15);
INSERT INTO "speakers" VALUES('side','cli','anna',0,0);
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
CREATE TABLE sync_state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "sync_state" VALUES('own','srv-c3');
INSERT INTO "sync_state" VALUES('through:desk-b2','{"v":1,"kind":"through","turn":8,"fact":5,"written":0}');
INSERT INTO "sync_state" VALUES('through:lap-a1','{"v":1,"kind":"through","turn":10,"fact":4,"written":0}');
INSERT INTO "sync_state" VALUES('told','15');
CREATE TABLE turn_extras (
        turn_id INTEGER PRIMARY KEY,
        chat_id INTEGER NOT NULL,
        identity BLOB NOT NULL,
        estimated INTEGER NOT NULL,
        raw TEXT NOT NULL
    );
INSERT INTO "turn_extras" VALUES(8,1,X'5786F86A05D22F2992C56EA78D692308',0,'{"n":0}');
INSERT INTO "turn_extras" VALUES(9,1,X'5786F86A05D22F2992C56EA78D692308',0,'{"n":1}');
CREATE TABLE turn_files (
        instance TEXT NOT NULL,
        rel_path TEXT NOT NULL,
        through INTEGER NOT NULL,
        PRIMARY KEY (instance, rel_path)
    ) WITHOUT ROWID;
INSERT INTO "turn_files" VALUES('desk-b2','turns/desk-b2/2026-12.jsonl',1689);
INSERT INTO "turn_files" VALUES('lap-a1','turns/lap-a1/2026-04.jsonl',1444);
INSERT INTO "turn_files" VALUES('lap-a1','turns/lap-a1/2026-05.jsonl',340);
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
INSERT INTO "turns" VALUES(1,'cli','cli','anna',NULL,'Anna','user','the beginning',1772323207000,'text','cli',0,0);
INSERT INTO "turns" VALUES(2,'cli',NULL,NULL,NULL,NULL,'assistant','the answer',1772323214000,'text','cli',0,0);
INSERT INTO "turns" VALUES(3,'cli','cli','anna',NULL,'Anna','user','srv-c3 0!',1772323207000,'text','cli',0,0);
INSERT INTO "turns" VALUES(4,'side','cli','anna',NULL,'Anna','user','srv-c3 2!',1772323214000,'text','cli',0,0);
INSERT INTO "turns" VALUES(5,'cli','cli','anna',NULL,'Anna','user','desk-b2 5!!',1772323221000,'text','cli',0,0);
INSERT INTO "turns" VALUES(6,'cli',NULL,NULL,NULL,NULL,'assistant','desk-b2 17!!',1772323228000,'text','cli',0,0);
INSERT INTO "turns" VALUES(7,'b2',NULL,NULL,NULL,NULL,'assistant','desk-b2 19',1772323235000,'text','cli',0,0);
INSERT INTO "turns" VALUES(8,'chat','cli','anna',NULL,'Anna','user','line 0',1772323200000,'text','import-chat',0,0);
INSERT INTO "turns" VALUES(9,'chat','cli','anna',NULL,'Anna','user','line 1',1772323200000,'text','import-chat',0,0);
INSERT INTO "turns" VALUES(10,'cli',NULL,NULL,NULL,NULL,'assistant','srv-c3 27!',1772323228000,'text','cli',0,0);
INSERT INTO "turns" VALUES(11,'cli',NULL,NULL,NULL,NULL,'assistant','lap-a1 1',1772323207000,'text','cli',0,0);
INSERT INTO "turns" VALUES(12,'cli','cli','anna',NULL,'Anna','user','lap-a1 3!',1772323214000,'text','cli',0,0);
INSERT INTO "turns" VALUES(13,'cli',NULL,NULL,NULL,NULL,'assistant','lap-a1 7',1772323228000,'text','cli',0,0);
INSERT INTO "turns" VALUES(14,'b2','cli','anna',NULL,'Anna','user','lap-a1 10',1772323235000,'text','cli',0,0);
INSERT INTO "turns" VALUES(15,'cli','cli','anna',NULL,'Anna','user','lap-a1 23!!',1772323242000,'text','cli',0,0);
CREATE TABLE unread (turn_id INTEGER PRIMARY KEY, imported INTEGER NOT NULL);
INSERT INTO "unread" VALUES(3,0);
INSERT INTO "unread" VALUES(4,0);
INSERT INTO "unread" VALUES(8,1);
INSERT INTO "unread" VALUES(9,1);
INSERT INTO "unread" VALUES(10,0);
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
CREATE TRIGGER elsewhere_is_never_changed BEFORE UPDATE ON elsewhere
        BEGIN SELECT RAISE(ABORT, 'the origin of a turn is never changed'); END;
CREATE TRIGGER elsewhere_is_never_deleted BEFORE DELETE ON elsewhere
        BEGIN SELECT RAISE(ABORT, 'the origin of a turn is never deleted'); END;
CREATE INDEX slots_by_slot ON slots (slot);
CREATE TRIGGER marks_are_summed_up AFTER INSERT ON marks
        BEGIN
            INSERT OR IGNORE INTO set_aside (turn_id) VALUES (NEW.turn_id);
            UPDATE set_aside SET
                superseded_by = iif(NEW.mark = 'superseded', NEW.value, superseded_by),
                withdrawn = iif(NEW.mark = 'withdrawn', NEW.value, withdrawn),
                hidden = iif(NEW.mark = 'hidden', NEW.value, hidden)
            WHERE turn_id = NEW.turn_id;
            INSERT OR IGNORE INTO slots (turn_id, slot)
                SELECT id, coalesce((SELECT slot FROM slots WHERE slots.turn_id = NEW.turn_id), NEW.turn_id) FROM turns
                WHERE NEW.mark = 'superseded' AND id = NEW.value
                AND id != coalesce((SELECT slot FROM slots WHERE slots.turn_id = NEW.turn_id), NEW.turn_id);
            INSERT OR REPLACE INTO places SELECT turns.id, channel_id,
                coalesce((SELECT place FROM places WHERE turn_id = slot), slot)
                FROM turns JOIN slots ON slots.turn_id = turns.id AND NOT is_node
                WHERE NEW.mark = 'superseded' AND turns.id = NEW.value;
        END;
CREATE INDEX facts_by_row ON facts (kind, row_id);
CREATE INDEX facts_by_clock ON facts (clock);
CREATE TRIGGER chats_are_noted AFTER INSERT ON chats
    BEGIN INSERT INTO facts (kind, row_id, clock) VALUES ('chat', NEW.id, coalesce((SELECT max(clock) FROM facts), 0) + 1); END;
CREATE TRIGGER marks_are_noted AFTER INSERT ON marks
    BEGIN INSERT INTO facts (kind, row_id, clock) VALUES ('mark', NEW.id, coalesce((SELECT max(clock) FROM facts), 0) + 1); END;
CREATE TRIGGER channel_marks_are_noted AFTER INSERT ON channel_marks
    BEGIN INSERT INTO facts (kind, row_id, clock) VALUES ('channel mark', NEW.id, coalesce((SELECT max(clock) FROM facts), 0) + 1); END;
CREATE TRIGGER branches_are_noted AFTER INSERT ON branches
    BEGIN INSERT INTO facts (kind, row_id, clock) VALUES ('branch', NEW.id, coalesce((SELECT max(clock) FROM facts), 0) + 1); END;
CREATE TRIGGER chats_are_noted_again AFTER UPDATE OF head, name ON chats
    BEGIN INSERT INTO facts (kind, row_id, clock) VALUES ('chat', NEW.id, coalesce((SELECT max(clock) FROM facts), 0) + 1); END;
CREATE INDEX lines_waiting_for ON lines_waiting (needs_instance, needs_id);
CREATE INDEX turns_by_time ON turns (at_ms, author_platform, author_user_id);
CREATE INDEX unread_said_here ON unread (turn_id) WHERE NOT imported;
CREATE TRIGGER turns_are_unread AFTER INSERT ON turns
        BEGIN INSERT INTO unread VALUES (NEW.id, NEW.source = 'import-chat'); END;
CREATE TRIGGER only_speakers_are_noted AFTER INSERT ON turns
        BEGIN
            INSERT OR IGNORE INTO only_speakers SELECT NEW.channel_id,
                coalesce(said.platform, parent.platform), coalesce(said.user_id, parent.user_id)
                FROM branches
                LEFT JOIN one_to_one AS said ON said.turn_id = branches.turn_id
                JOIN only_speakers AS parent ON parent.channel_id = branches.parent
                WHERE branches.channel_id = NEW.channel_id;
            INSERT OR IGNORE INTO only_speakers
                SELECT NEW.channel_id, NEW.author_platform, NEW.author_user_id
                WHERE NEW.author_platform IS NOT NULL;
            UPDATE only_speakers SET platform = NULL, user_id = NULL
                WHERE channel_id = NEW.channel_id AND platform IS NOT NULL
                AND (platform, user_id) != (NEW.author_platform, NEW.author_user_id);
            INSERT OR IGNORE INTO one_to_one SELECT NEW.id, platform, user_id FROM only_speakers
                WHERE channel_id = NEW.channel_id AND platform IS NOT NULL;
        END;
CREATE INDEX replies_by_question ON replies (reply_to);
CREATE TRIGGER message_ids_are_never_changed BEFORE UPDATE
    ON message_ids BEGIN SELECT RAISE(ABORT, 'what a turn is to others is never changed'); END;
CREATE TRIGGER message_ids_are_never_deleted BEFORE DELETE
    ON message_ids BEGIN SELECT RAISE(ABORT, 'what a turn is to others is never deleted'); END;
CREATE TRIGGER replies_are_never_changed BEFORE UPDATE
    ON replies BEGIN SELECT RAISE(ABORT, 'what a turn is to others is never changed'); END;
CREATE TRIGGER replies_are_never_deleted BEFORE DELETE
    ON replies BEGIN SELECT RAISE(ABORT, 'what a turn is to others is never deleted'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('facts',9);
INSERT INTO "sqlite_sequence" VALUES('turns',15);
INSERT INTO "sqlite_sequence" VALUES('channel_marks',2);
INSERT INTO "sqlite_sequence" VALUES('marks',4);
INSERT INTO "sqlite_sequence" VALUES('branches',2);
COMMIT;
