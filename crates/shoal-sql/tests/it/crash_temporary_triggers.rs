//! One statement that writes to two files and to `temp`, by temporary triggers: cut, killed and
//! failed at every call. Both files are old afterwards, or both new.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::write_support::{run_shoal, run_sqlite, show, sqlite};
use shoal_sql::{Connection, Error};
use shoal_store::vfs::{Fault, FaultKind, Image, SimVfs};
use shoal_store::{Access, Options, Store};

/// Seeds of the crash: from unsynced writes it keeps nothing, everything, or some by chance.
const SEEDS: std::ops::Range<u64> = 0..6;

/// The journal modes of the two files.
const MODES: [[&str; 2]; 2] = [["delete", "delete"], ["persist", "truncate"]];

/// Fires a trigger on each row of the first file. The trigger writes to the other file and to
/// `temp`; the row in `temp` writes to the first file again.
const STATEMENT: &str = "INSERT INTO x SELECT a + 10, zeroblob(900) FROM x";

/// Two databases in one folder of the real disk: SQLite looks there for the files named by a
/// super-journal.
struct Place {
    folder: tempfile::TempDir,
    modes: [&'static str; 2],
    before: Image,
    known: BTreeMap<Image, usize>,
}

impl Place {
    fn new(modes: [&'static str; 2]) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let (before, known) = (Image::new(), BTreeMap::new());
        let mut place = Place { folder, modes, before, known };
        let vfs = SimVfs::new();
        let mut connection = place.connect(&vfs);
        for sql in [
            "CREATE TABLE x (a, b)",
            "CREATE TABLE y (a)",
            "CREATE TABLE aux.z (a UNIQUE, b)",
            "INSERT INTO x VALUES (1, 'one'), (2, 'two'), (3, 'three')",
            "INSERT INTO z SELECT a, zeroblob(700) FROM x",
        ] {
            run_shoal(&mut connection, sql).unwrap();
        }
        drop(connection);
        place.before = vfs.image();
        place
    }

    fn paths(&self) -> [PathBuf; 2] {
        ["db", "other"].map(|name| self.folder.path().join(name))
    }

    fn connect(&self, vfs: &SimVfs) -> Connection {
        let [main, other] = self.paths();
        let options = Options::new(Access::Create);
        let store = Store::open_with(Arc::new(vfs.clone()), &main, options).unwrap();
        let mut connection = Connection::open(store).unwrap();
        for sql in [
            format!("ATTACH '{}' AS aux", other.display()),
            format!("PRAGMA main.journal_mode = {}", self.modes[0]),
            format!("PRAGMA aux.journal_mode = {}", self.modes[1]),
        ] {
            run_shoal(&mut connection, &sql).unwrap();
        }
        connection
    }

    /// A connection with the triggers.
    fn ready(&self, vfs: &SimVfs) -> Connection {
        let mut connection = self.connect(vfs);
        for sql in [
            "CREATE TEMP TABLE log (a)",
            "CREATE TEMP TRIGGER tx AFTER INSERT ON x BEGIN UPDATE z SET b = zeroblob(1200) WHERE a = new.a - 10; INSERT INTO z VALUES (new.a, new.b); INSERT INTO log VALUES (new.a); END",
            "CREATE TEMP TRIGGER tl AFTER INSERT ON log BEGIN INSERT INTO y VALUES (new.a); END",
        ] {
            run_shoal(&mut connection, sql).unwrap();
        }
        connection
    }

    /// 0 for the old state of both files, 1 for the new state of both: by SQLite, whichever file is
    /// opened first, and by Shoal.
    fn state(&mut self, image: Image, at: &str) -> usize {
        if let Some(state) = self.known.get(&image) {
            return *state;
        }
        let [main, other] = self.paths();
        let of_main = "SELECT (SELECT count(*) FROM x), (SELECT count(*) FROM y)";
        let of_other = "SELECT count(*), (SELECT sum(length(b)) FROM z) FROM z";
        let mut found = Vec::new();
        for order in
            [[(&main, of_main), (&other, of_other)], [(&other, of_other), (&main, of_main)]]
        {
            self.lay(&image);
            let mut texts = order.map(|(path, sql)| {
                let connection = sqlite(Some(path));
                let whole = run_sqlite(&connection, "PRAGMA integrity_check");
                assert_eq!(show(&whole), "\"ok\"\n", "{at}");
                (path, show(&run_sqlite(&connection, sql)))
            });
            texts.sort();
            found.push(texts.map(|(_, text)| text).concat());
        }
        let mut connection = self.connect(&SimVfs::from_image(&image));
        found.push([of_main, of_other].map(|sql| show(&run_shoal(&mut connection, sql))).concat());
        let state = match found[0].as_str() {
            "Int(3) | Int(0)\nInt(3) | Int(2100)\n" => 0,
            "Int(6) | Int(3)\nInt(6) | Int(6300)\n" => 1,
            other => panic!("{at}: mixed, {other}"),
        };
        assert!(found.iter().all(|texts| *texts == found[0]), "{at}: {found:?}");
        self.known.insert(image, state);
        state
    }

    /// Puts the files of a simulated disk into the folder.
    fn lay(&self, image: &Image) {
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (path, bytes) in image {
            std::fs::write(path, bytes).unwrap();
        }
    }
}

/// The numbers of calls before and after the statement, in a run without trouble.
fn sound(place: &Place) -> (SimVfs, std::ops::Range<usize>) {
    let vfs = SimVfs::from_image(&place.before);
    let mut connection = place.ready(&vfs);
    let begun = vfs.calls();
    run_shoal(&mut connection, STATEMENT).unwrap();
    let ended = vfs.calls();
    assert_eq!(
        show(&run_shoal(&mut connection, "SELECT * FROM log")),
        "Int(11)\nInt(12)\nInt(13)\n"
    );
    drop(connection);
    (vfs, begun..ended)
}

#[test]
fn files_cut_anywhere_are_both_old_or_both_new() {
    for modes in MODES {
        let mut place = Place::new(modes);
        let (vfs, calls) = sound(&place);
        let mut seen = [0; 2];
        for call in calls.start..=vfs.calls() {
            for seed in SEEDS {
                let at = format!("{modes:?}: cut after call {call}, seed {seed}");
                let state = place.state(vfs.image_after_crash(call, seed), &at);
                assert!(call < calls.end || state == 1, "{at}: it was told to be durable");
                seen[state] += 1;
            }
        }
        assert!(seen[0] > 50 && seen[1] > 10, "{seen:?}");
        assert!(place.known.len() > 10, "{} disks", place.known.len());
    }
}

#[test]
fn a_statement_killed_anywhere_is_whole_or_not_there() {
    let mut place = Place::new(MODES[0]);
    let (_, calls) = sound(&place);
    for call in calls {
        let vfs = SimVfs::from_image(&place.before);
        let mut connection = place.ready(&vfs);
        vfs.kill_at(call);
        run_shoal(&mut connection, STATEMENT).unwrap();
        for image in vfs.killed() {
            place.state(image, &format!("killed at call {call}"));
        }
    }
    assert!(place.known.len() > 5);
}

/// A failed statement leaves both files and `temp` as before.
#[test]
fn any_call_of_the_statement_may_fail() {
    for modes in MODES {
        let mut place = Place::new(modes);
        let (_, calls) = sound(&place);
        let mut failed = 0;
        for call in calls {
            for (stays, kind) in
                [(false, FaultKind::Io), (true, FaultKind::Io), (false, FaultKind::NoSpace)]
            {
                let at = format!("{modes:?}: call {call} fails, stays: {stays}");
                let vfs = SimVfs::from_image(&place.before);
                let mut connection = place.ready(&vfs);
                vfs.set_fault(Some(Fault { call, stays, kind }));
                let mut statement = connection.prepare(STATEMENT);
                let outcome = match &mut statement {
                    Ok(statement) => connection.execute(statement).map(drop),
                    Err(_) => statement.map(drop),
                };
                vfs.set_fault(None);
                let in_doubt =
                    matches!(&outcome, Err(Error::Store(shoal_store::Error::InDoubt { .. })));
                if let Ok(rows) = run_shoal(&mut connection, "SELECT count(*) FROM log")
                    && !in_doubt
                {
                    let count = if outcome.is_ok() { "Int(3)\n" } else { "Int(0)\n" };
                    assert_eq!(show(&Ok(rows)), count, "{at}");
                }
                let state = place.state(vfs.image(), &at);
                match outcome {
                    Ok(()) => assert_eq!(state, 1, "{at}"),
                    Err(_) if in_doubt => {}
                    Err(error) => {
                        failed += 1;
                        assert_eq!(state, 0, "{at}: {error}");
                    }
                }
            }
        }
        assert!(failed > 20, "{failed} runs failed");
    }
}
