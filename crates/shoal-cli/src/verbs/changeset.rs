//! `shoal changeset`: changesets as files.

use std::io::Write;
use std::path::Path;

use shoal_diff::{JsonLines, Reader, concat, invert, rebase};

use crate::args::exchange::ChangesetVerb;
use crate::failure::Failure;
use crate::open;
use crate::out;

pub(crate) fn run(verb: &ChangesetVerb) -> Result<(), Failure> {
    let (bytes, output) = match verb {
        ChangesetVerb::Show(args) => return show(&args.file),
        ChangesetVerb::Invert(args) => (invert(&read(&args.file)?)?, &args.output),
        ChangesetVerb::Concat(args) => {
            (concat(&read(&args.first)?, &read(&args.second)?)?, &args.output)
        }
        ChangesetVerb::Rebase(args) => {
            (rebase(&read(&args.local)?, &read(&args.notes)?)?, &args.output)
        }
    };
    shoal_vfs::replace_file(output, &bytes).map_err(Failure::new)
}

/// Reads a changeset; `-` is stdin.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    if path == Path::new("-") { open::stdin() } else { open::read(path) }
}

fn show(path: &Path) -> Result<(), Failure> {
    let bytes = read(path)?;
    let mut reader = Reader::new(&bytes);
    let mut out = out::stdout();
    let mut lines = JsonLines::new(&mut out);
    while let Some(change) = reader.next().map_err(|error| Failure::at(path.display(), error))? {
        lines.change(&change)?;
    }
    Ok(out.flush()?)
}
