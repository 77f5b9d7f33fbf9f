//! `shoal decrypt`: a sealed database becomes a plain one.

use super::vault::{replace, sealed};
use crate::args::vault::DecryptArgs;
use crate::failure::Failure;
use crate::out;

pub(crate) fn run(args: &DecryptArgs) -> Result<(), Failure> {
    let path = &args.database;
    let store = sealed(path)?;
    let pages = replace(path, store, None)?;
    out::note(format_args!("{}: {pages} pages, readable by anybody", path.display()));
    Ok(())
}
