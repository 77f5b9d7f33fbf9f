//! `shoal rekey`: a sealed database gets another data key, and its pages are written again.

use shoal_vault::{SealedPages, VaultError};

use super::vault::{replace, sealed};
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
        let pages = spin("rekeying", || shoal_vault::finish_rekey(&store)).map_err(failed)?;
        out::note(format_args!("{}: {pages} pages written again", path.display()));
        return Ok(());
    }
    let (secret, cost) = keys::new_secret(&args.new)?;
    let is_own = store
        .codec()
        .and_then(|codec| codec.as_any())
        .is_some_and(|codec| codec.is::<SealedPages>());
    let pages = match is_own {
        true => {
            spin("rekeying", || shoal_vault::rekey(&store, &secret, cost, "")).map_err(failed)?
        }
        false => {
            let codec = keys::keys().new_codec(&secret).map_err(failed)?;
            replace(path, store, Some(codec))?
        }
    };
    out::note(format_args!("{}: {pages} pages written again", path.display()));
    out::note("copies of the file made before still open with the old keys");
    Ok(())
}
