//! `shoal dump`: the tables and documents of a database as SQL recreating them, in Shoal or in
//! `sqlite3`. The statistics of `ANALYZE` are left out, with a note.

use std::io::Write;

use crate::args::DumpArgs;
use crate::dump::{Wanted, dump};
use crate::failure::Failure;
use crate::out;
use crate::rules;

pub(crate) fn run(args: &DumpArgs) -> Result<(), Failure> {
    let mut connection = rules::reading(&args.file, &args.by)?;
    let failed = |error: shoal_sql::Error| Failure::at(args.file.display(), error);
    let wanted = match args.tables.is_empty() {
        true => Wanted::All,
        false => Wanted::Tables(&args.tables),
    };
    let mut out = out::stdout();
    dump(&mut *connection, &mut out, &wanted, &failed, &mut |note| out::note(note))?;
    Ok(out.flush()?)
}
