//! Copies of databases in use, with a bar on a terminal.

use std::path::Path;
use std::time::Duration;

use shoal_sql::Connection;
use shoal_store::{Access, Backup, Store};

use crate::failure::Failure;
use crate::open;
use crate::progress::Bar;

/// Pages between two looks at the clock, and the longest a writer of a file without a log waits.
const STEP_PAGES: u32 = 1024;
/// Lets writers in between two steps.
const PAUSE: Duration = Duration::from_millis(2);

/// Copies a database into `file`, a new file or an existing database; gives pages and bytes.
pub(crate) fn to_file(source: &Store, file: &Path) -> Result<(u32, u64), Failure> {
    let failed = |error: shoal_store::Error| open::about(file, &error);
    let has_content = file.metadata().is_ok_and(|metadata| metadata.len() > 0);
    if has_content {
        let target = open::connection(file, Access::ReadWrite)?;
        return run(Backup::into_store(source, target.store()).map_err(failed)?, file);
    }
    run(Backup::to_file(source, file).map_err(failed)?, file)
}

/// Replaces the content of a connection's database by the content of `file`.
pub(crate) fn from_file(connection: &Connection, file: &Path) -> Result<(u32, u64), Failure> {
    let source = open::connection(file, Access::ReadOnly)?;
    let failed = |error: shoal_store::Error| open::about(file, &error);
    run(Backup::into_store(source.store(), connection.store()).map_err(failed)?, file)
}

fn run(mut backup: Backup, file: &Path) -> Result<(u32, u64), Failure> {
    let failed = |error: shoal_store::Error| open::about(file, &error);
    let mut is_done = backup.step(1).map_err(failed)?;
    let bytes = |pages: u32, backup: &Backup| u64::from(pages) * u64::from(backup.page_size());
    let bar = Bar::new(Some(bytes(backup.pages(), &backup)));
    let mut seen = 0;
    while !is_done {
        is_done = backup.step(STEP_PAGES).map_err(failed)?;
        let copied = bytes(backup.copied(), &backup);
        // After a restart the bar waits for the pages copied before.
        bar.add(copied.saturating_sub(seen));
        seen = seen.max(copied);
        if !is_done {
            std::thread::sleep(PAUSE);
        }
    }
    bar.clear();
    Ok((backup.pages(), bytes(backup.pages(), &backup)))
}
