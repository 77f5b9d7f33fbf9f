//! `shoal tour`: the main job once, on real data.
//!
//! Every step runs this very program as a command of its own: each opens the file, does its work,
//! makes the result durable and closes the file. Every command shown is one a user could type.

mod step;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::args::TourArgs;
use crate::failure::Failure;
use step::{Step, Tour};

pub(crate) fn run(args: &TourArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let testdata = find_testdata(args.testdata.as_deref())?;
    let music = testdata.join("sqlite/chinook.sqlite");
    let minutes = testdata.join("automerge/documents/monday-meeting-notes.automerge");
    for file in [&music, &minutes] {
        if !file.is_file() {
            return Err(Failure::at(file.display(), "no such file")
                .hint("--testdata names the folder testdata/ of the source tree"));
        }
    }
    let dir = make_dir(args.dir.as_deref())?;
    let mut tour = Tour::new(&dir)?;

    tour.say("A database with a music shop's tables, and a real document beside them.")?;
    tour.run(Step::shoal(["dump", &path(&music)]).pipe(["sql", "tour.db"]))?;
    tour.run(Step::shoal(["doc", "import", &path(&minutes), "tour.db::minutes"]))?;
    tour.run(Step::shoal(["doc", "import", "-", "tour.db::wishes"]).input(
        r#"{"title": "Wishes", "artist": 22, "songs": ["Kashmir", "Misty Mountain Hop"]}"#,
    ))?;
    let imported = tour.run(Step::shoal(["doc", "ls", "tour.db"]))?;
    tour.check("both documents are stored", imported.lines().count() == 2)?;

    tour.say("Two people take the document away and edit it apart.")?;
    tour.run(Step::shoal(["doc", "export", "tour.db::wishes", "-o", "ada.automerge"]))?;
    tour.run(Step::shoal(["doc", "export", "tour.db::wishes", "-o", "ben.automerge"]))?;
    let ada = ["--actor", "ada0", "-m", "a song, and a better title"];
    tour.run(
        Step::shoal(["doc", "splice", "ada.automerge", "/title", "0", "0", "Ada's "]).and(ada),
    )?;
    tour.run(Step::shoal(["doc", "put", "ada.automerge", "/songs/-", "\"Rock & Roll\""]).and(ada))?;
    let ben = ["--actor", "be00", "-m", "for whom"];
    tour.run(
        Step::shoal(["doc", "splice", "ben.automerge", "/title", "6", "0", " for Ben"]).and(ben),
    )?;
    tour.run(
        Step::shoal(["doc", "splice", "ben.automerge", "/songs", "0", "1", "[\"The Ocean\"]"])
            .and(ben),
    )?;

    tour.say("They meet: both histories are merged into the database, durably.")?;
    tour.run(Step::shoal([
        "doc",
        "merge",
        "ada.automerge",
        "ben.automerge",
        "-o",
        "tour.db::wishes",
    ]))?;
    tour.run(Step::shoal(["doc", "history", "tour.db::wishes"]))?;
    let merged = tour.run(Step::shoal(["doc", "show", "tour.db::wishes", "--format", "json"]))?;
    tour.check(
        "the merged document holds what both wrote",
        merged.trim_end()
            == r#"{"artist":22,"songs":["The Ocean","Misty Mountain Hop","Rock & Roll"],"title":"Ada's Wishes for Ben"}"#,
    )?;

    tour.say("The heads survive: those of the file merged here are those of the database.")?;
    tour.run(Step::shoal([
        "doc",
        "merge",
        "ben.automerge",
        "ada.automerge",
        "-o",
        "both.automerge",
    ]))?;
    let outside = tour.run(Step::shoal(["doc", "info", "both.automerge", "--format", "json"]))?;
    let inside = tour.run(Step::shoal(["doc", "info", "tour.db::wishes", "--format", "json"]))?;
    tour.check(
        "the heads are equal",
        heads(&outside).is_some() && heads(&outside) == heads(&inside),
    )?;
    let before = tour.run(Step::shoal(["doc", "info", &path(&minutes), "--format", "json"]))?;
    let after = tour.run(Step::shoal(["doc", "info", "tour.db::minutes", "--format", "json"]))?;
    tour.check(
        "the imported document has the heads of its file",
        heads(&before).is_some() && heads(&before) == heads(&after),
    )?;

    tour.say("Tables and documents answer SQL, together.")?;
    let genres = tour.run(Step::shoal([
        "sql",
        "--format",
        "list",
        "tour.db",
        "SELECT g.Name, count(*), round(avg(t.Milliseconds) / 1000.0, 1) FROM Track t \
         JOIN Genre g ON g.GenreId = t.GenreId GROUP BY g.GenreId ORDER BY 2 DESC LIMIT 3",
    ]))?;
    tour.check(
        "the shop sells what it always sold",
        genres == "Rock|1297|283.9\nLatin|579|232.9\nMetal|374|309.7\n",
    )?;
    let wish = tour.run(Step::shoal([
        "sql",
        "--format",
        "list",
        "tour.db",
        "SELECT d.json ->> '$.title', r.Name, count(*) FROM _shoal_doc d \
         JOIN Artist r ON r.ArtistId = d.json ->> '$.artist' \
         JOIN Album a ON a.ArtistId = r.ArtistId GROUP BY r.ArtistId",
    ]))?;
    tour.check("a document joins the tables", wish == "Ada's Wishes for Ben|Led Zeppelin|14\n")?;

    tour.say("An ordinary sqlite3 agrees.")?;
    match tour.run_if_there(Step::program("sqlite3", ["tour.db", "PRAGMA integrity_check"]))? {
        Some(verdict) => tour.check("integrity_check is ok", verdict == "ok\n")?,
        None => tour.say("  (there is no sqlite3 command here; skipped)")?,
    }
    tour.end(start.elapsed())
}

/// The heads in the answer of `doc info --format json`.
fn heads(info: &str) -> Option<serde_json::Value> {
    let info: serde_json::Value = serde_json::from_str(info).ok()?;
    info.get("heads").filter(|heads| heads.as_array().is_some_and(|list| !list.is_empty())).cloned()
}

/// `testdata/` as named, below the current folder if Shoal's documents are in it, or in the source
/// tree of this build.
pub(crate) fn find_testdata(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let places = match named {
        Some(named) => vec![named.to_owned()],
        None => vec![PathBuf::from("testdata"), built_from],
    };
    let is_ours = |place: &&PathBuf| named.is_some() || place.join("automerge/documents").is_dir();
    places.iter().filter(is_ours).find_map(|place| place.canonicalize().ok()).ok_or_else(|| {
        Failure::at(places[0].display(), "no such folder")
            .hint("run the tour in Shoal's source tree, or name its testdata with --testdata")
    })
}

fn make_dir(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let dir = match named {
        Some(dir) => dir.to_owned(),
        None => std::env::temp_dir().join(format!("shoal-tour-{}", std::process::id())),
    };
    std::fs::create_dir(&dir).map_err(|error| Failure::at(dir.display(), error))?;
    dir.canonicalize().map_err(|error| Failure::at(dir.display(), error))
}

fn path(path: &Path) -> String {
    path.display().to_string()
}
