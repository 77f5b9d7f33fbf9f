//! `shoal rekey`: a sealed database gets another data key, and its pages are written again.

use std::path::Path;
use std::time::{Duration, Instant};

use shoal_store::Store;
use shoal_vault::{RekeyProgress, SealedPages, VaultError};

use super::vault::{failure, replace, sealed};
use crate::args::vault::RekeyArgs;
use crate::failure::Failure;
use crate::keys;
use crate::open::about;
use crate::out;
use crate::progress::spin;

pub(crate) fn run(args: &RekeyArgs) -> Result<(), Failure> {
    let path = &args.database;
    let store = sealed(path)?;
    let failed = |error: VaultError| about(path, &error);
    if args.resume {
        let pages = finish(path, &store)?;
        out::note(format_args!("{}: {pages} pages written again", path.display()));
        return Ok(());
    }
    let new = keys::new_keys(&args.new)?;
    let is_own = store
        .codec()
        .and_then(|codec| codec.as_any())
        .is_some_and(|codec| codec.is::<SealedPages>());
    let pages = match is_own {
        true => {
            shoal_vault::begin_rekey(&store, &new).map_err(failed)?;
            finish(path, &store)?
        }
        false => {
            let codec = keys::keys().new_codec(&new).map_err(failed)?;
            replace(path, store, Some(codec))?
        }
    };
    out::note(format_args!("{}: {pages} pages written again", path.display()));
    out::note("copies of the file made before still open with the old keys");
    Ok(())
}

/// Writes the pages of the old key again, step by step; others have the time between two steps to
/// write. The number of pages.
fn finish(path: &Path, store: &Store) -> Result<u32, Failure> {
    let mut progress = RekeyProgress::default();
    spin("rekeying", || {
        while !progress.is_done() {
            let start = Instant::now();
            match shoal_vault::rekey_step(store, &mut progress) {
                Ok(()) => {}
                // Nothing is lost by waiting: every step before is durable.
                Err(VaultError::Store(error)) if error.is_busy() => {}
                Err(error) => {
                    let hint = "shoal rekey --resume goes on, with a new key";
                    return Err(failure(path, &error).hint(hint));
                }
            }
            std::thread::sleep(start.elapsed().min(PAUSE_MAX));
        }
        Ok(progress.written())
    })
}

/// The longest pause between two steps.
const PAUSE_MAX: Duration = Duration::from_millis(20);
