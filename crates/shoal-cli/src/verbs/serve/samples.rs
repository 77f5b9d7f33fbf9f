//! Real documents to begin with, for `shoal serve` without a database.

use std::path::Path;

use shoal::Access;
use shoal_server::DocumentId;

use crate::failure::Failure;
use crate::place::Place;
use crate::verbs::tour;
use crate::{open, out};

/// Files of `testdata/automerge/documents`; each has the id of its place in this list.
const SAMPLES: [&str; 3] =
    ["monday-meeting-notes.automerge", "godot-modeled.amrg", "moby-dick.automerge"];

/// Makes a database of the samples where the source tree is at hand; without the tree, none.
pub(crate) fn fill(database: &Path) -> Result<(), Failure> {
    let Ok(testdata) = tour::find_testdata(None) else { return Ok(()) };
    let folder = testdata.join("automerge/documents");
    let mut file = open::database(database, Access::Create)?;
    for (sample, number) in SAMPLES.into_iter().zip(1..) {
        let path = folder.join(sample);
        let source = Place::File(path.clone());
        let mut document = open::parse(&source, &open::read(&path)?)?;
        let name = DocumentId::from_bytes([number; 16]);
        let stored = file.store(name.as_str(), &mut document);
        stored.map_err(|error| open::about(database, &error))?;
        out::note(format_args!("{}: {sample} is automerge:{name}", database.display()));
    }
    Ok(())
}
