//! `shoal keys`: the key slots of a sealed database.

use std::sync::Arc;

use shoal_vault::KeyPage;
use shoal_vfs::{OsVfs, Vfs};

use super::vault::{failure, sealed};
use crate::args::vault::{KeysAddArgs, KeysLsArgs, KeysRmArgs, KeysVerb};
use crate::failure::Failure;
use crate::keys;
use crate::out;
use crate::progress::spin;

pub(crate) fn run(verb: &KeysVerb) -> Result<(), Failure> {
    match verb {
        KeysVerb::Ls(args) => list(args),
        KeysVerb::Add(args) => add(args),
        KeysVerb::Rm(args) => remove(args),
        KeysVerb::Verify(args) => verify(args),
    }
}

fn list(args: &KeysLsArgs) -> Result<(), Failure> {
    let path = &args.database;
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new());
    let page = shoal_vault::key_page(&vfs, path).map_err(|error| failure(path, &error))?;
    print(&page)
}

fn print(page: &KeyPage) -> Result<(), Failure> {
    out::line(format_args!("cipher {}, epoch {}", page.cipher().name(), page.epoch()))?;
    for (place, slot) in page.slots() {
        let cost = slot.cost();
        out::line(format_args!(
            "{place} argon2id {} KiB, {} passes, {} lanes{}{}",
            cost.memory_kib(),
            cost.passes(),
            cost.lanes(),
            if slot.label().is_empty() { "" } else { ": " },
            slot.label().escape_debug(),
        ))?;
    }
    if page.is_being_rekeyed() {
        out::note("a rekey was cut short: shoal rekey --resume goes on");
    }
    Ok(())
}

fn add(args: &KeysAddArgs) -> Result<(), Failure> {
    let path = &args.database;
    let store = sealed(path)?;
    let (secret, cost) = keys::new_secret(&args.new)?;
    let place = shoal_vault::add_slot(&store, &secret, cost, &args.label);
    let place = place.map_err(|error| failure(path, &error))?;
    out::note(format_args!("{}: key slot {place}", path.display()));
    Ok(())
}

fn remove(args: &KeysRmArgs) -> Result<(), Failure> {
    let path = &args.database;
    let store = sealed(path)?;
    shoal_vault::remove_slot(&store, args.slot).map_err(|error| failure(path, &error))?;
    out::note(format_args!("{}: key slot {} removed", path.display(), args.slot));
    out::note(
        "copies of the file made before still open with its key; shoal rekey changes the data key",
    );
    Ok(())
}

fn verify(args: &KeysLsArgs) -> Result<(), Failure> {
    let path = &args.database;
    let store = sealed(path)?;
    let pages = spin("verifying", || shoal_vault::verify(&store));
    let pages = pages.map_err(|error| failure(path, &error))?;
    out::note(format_args!("{}: {pages} pages are as they were written", path.display()));
    Ok(())
}
