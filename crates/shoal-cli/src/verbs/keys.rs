//! `shoal keys`: the key slots of a sealed database.

use std::sync::Arc;

use shoal::Environment;
use shoal_vault::{KeyPage, Secret};
use shoal_vfs::{OsVfs, Vfs};

use super::vault::{failure, sealed};
use crate::args::vault::{
    KeysAddArgs, KeysLsArgs, KeysNewArgs, KeysPublicArgs, KeysRmArgs, KeysVerb,
};
use crate::failure::Failure;
use crate::progress::spin;
use crate::verbs::token::write_secret;
use crate::{keys, out, password};

pub(crate) fn run(verb: &KeysVerb) -> Result<(), Failure> {
    match verb {
        KeysVerb::Ls(args) => list(args),
        KeysVerb::Add(args) => add(args),
        KeysVerb::New(args) => new(args),
        KeysVerb::Public(args) => public(args),
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
        let label = slot.label();
        let label = match label.is_empty() {
            true => String::new(),
            false => format!(": {}", label.escape_debug()),
        };
        if let Some(cost) = slot.cost() {
            out::line(format_args!(
                "{place} argon2id {} KiB, {} passes, {} lanes{label}",
                cost.memory_kib(),
                cost.passes(),
                cost.lanes(),
            ))?;
        } else if let Some(fingerprint) = slot.recipient() {
            out::line(format_args!("{place} x25519 {fingerprint}{label}"))?;
        }
    }
    if page.is_being_rekeyed() {
        out::note("a rekey was cut short: shoal rekey --resume goes on");
    }
    Ok(())
}

fn add(args: &KeysAddArgs) -> Result<(), Failure> {
    let path = &args.database;
    let store = sealed(path)?;
    for key in keys::new_keys(&args.new)? {
        let place = shoal_vault::add_slot(&store, &key.labelled(&args.label));
        let place = place.map_err(|error| failure(path, &error))?;
        out::note(format_args!("{}: key slot {place}", path.display()));
    }
    Ok(())
}

fn new(args: &KeysNewArgs) -> Result<(), Failure> {
    let path = &args.file;
    let (text, recipient) = shoal_vault::new_pair(|bytes| Environment::os().fill(bytes));
    write_secret(path, &text).map_err(|error| Failure::at(path.display(), error))?;
    Ok(out::line(recipient)?)
}

fn public(args: &KeysPublicArgs) -> Result<(), Failure> {
    let path = &args.file;
    let secret = Secret::new(&password::key_file(path)?);
    match secret.recipient().map_err(|error| Failure::at(path.display(), error))? {
        Some(recipient) => Ok(out::line(recipient)?),
        None => Err(Failure::at(path.display(), "is no private key that shoal keys new made")),
    }
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
