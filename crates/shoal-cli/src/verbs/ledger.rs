//! `shoal ledger`: signed history in a database.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::json;
use shoal::Environment;
use shoal_sql::Connection;
use shoal_stdx::hex;
use shoal_store::Access;
use shoal_trust::{
    Admission, Ledger, NewEntry, Payload, Revocation, Rotation, SignedChanges, Signer,
    VerifyOptions, WriterId, merkle, writer_of,
};

use crate::args::ledger::{
    LedgerAddArgs, LedgerAdmitArgs, LedgerDocumentsArgs, LedgerHeadArgs, LedgerProveArgs,
    LedgerVerb, LedgerVerifyArgs,
};
use crate::failure::Failure;
use crate::verbs::token::write_secret;
use crate::{open, out, time};

pub(crate) fn run(verb: &LedgerVerb) -> Result<(), Failure> {
    match verb {
        LedgerVerb::New(args) => new(&args.database),
        LedgerVerb::Key(args) => key(&args.file),
        LedgerVerb::Join(args) => with(&args.by.database, Access::Create, |ledger| {
            let writer = ledger.join(&signer(&args.by.signer)?, &args.name, now())?;
            Ok(out::line(hex::encode(&writer))?)
        }),
        LedgerVerb::Admit(args) => admit(args),
        LedgerVerb::Add(args) => add(args),
        LedgerVerb::Documents(args) => sign_documents(args),
        LedgerVerb::Rotate(args) => {
            let rotation = Rotation { key: hex::encode(&signer(&args.to)?.public()) };
            let payload = serde_json::to_vec(&rotation).map_err(Failure::new)?;
            append(&args.by.database, &args.by.signer, "rotate", &payload)
        }
        LedgerVerb::Revoke(args) => {
            let writer = hex::encode(&writer(&args.writer)?);
            let payload = serde_json::to_vec(&Revocation { writer, last: args.last });
            let payload = payload.map_err(Failure::new)?;
            append(&args.by.database, &args.by.signer, "revoke", &payload)
        }
        LedgerVerb::Head(args) => head(args),
        LedgerVerb::Prove(args) => prove(args),
        LedgerVerb::Import(args) => with(&args.other, Access::ReadOnly, |other| {
            with(&args.database, Access::Create, |ledger| {
                let (taken, refused) = ledger.import(other)?;
                out::note(format_args!("{taken} entries taken"));
                if refused > 0 {
                    let why =
                        format_args!("{refused} entries refused: not signed by their writers");
                    return Err(Failure::at(args.other.display(), why));
                }
                Ok(())
            })
        }),
        LedgerVerb::Log(args) => log(&args.database),
        LedgerVerb::Verify(args) => verify(args),
    }
}

fn now() -> i64 {
    Environment::os().now_ms()
}

fn with<T>(
    path: &Path,
    access: Access,
    work: impl FnOnce(&mut Ledger<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut connection = existing(path, access)?;
    let mut ledger = Ledger::open(&mut connection).map_err(|error| open::about(path, &error))?;
    work(&mut ledger)
}

fn existing(path: &Path, access: Access) -> Result<Connection, Failure> {
    if !open::exists(path)? {
        return Err(Failure::at(path.display(), "no such file"));
    }
    open::connection(path, access)
}

fn new(path: &Path) -> Result<(), Failure> {
    let mut entropy = [0; 32];
    Environment::os().fill(&mut entropy);
    let mut connection = open::connection(path, Access::Create)?;
    let ledger = Ledger::create(&mut connection, entropy);
    let ledger = ledger.map_err(|error| open::about(path, &error))?;
    out::note(format_args!("{}: ledger {}", path.display(), hex::encode(&ledger.id())));
    Ok(())
}

fn key(path: &Path) -> Result<(), Failure> {
    let mut secret = [0; 32];
    Environment::os().fill(&mut secret);
    let signer = Signer::from_bytes(&secret);
    let written = write_secret(path, &format!("{}\n", hex::encode(&secret)));
    secret.fill(0);
    written.map_err(|error| Failure::at(path.display(), error))?;
    Ok(out::line(hex::encode(&writer_of(&signer.public())))?)
}

fn signer(path: &Path) -> Result<Signer, Failure> {
    let text = String::from_utf8(open::read(path)?).unwrap_or_default();
    Signer::from_text(&text).map_err(|error| Failure::at(path.display(), error))
}

fn writer(text: &str) -> Result<WriterId, Failure> {
    let bytes = hex::decode(text).ok();
    let id = bytes.and_then(|bytes| bytes.as_slice().try_into().ok());
    id.ok_or_else(|| {
        Failure::new(format_args!("{text}: a writer is 64 hexadecimal digits")).code(2)
    })
}

fn append(path: &Path, key: &Path, kind: &str, payload: &[u8]) -> Result<(), Failure> {
    let signer = signer(key)?;
    with(path, Access::Create, |ledger| {
        let hash = ledger.append(&signer, &NewEntry { time_ms: now(), kind, payload })?;
        Ok(out::line(hex::encode(&hash))?)
    })
}

fn admit(args: &LedgerAdmitArgs) -> Result<(), Failure> {
    let writer = hex::encode(&writer(&args.writer)?);
    let admission = Admission { writer, scopes: args.scopes.clone() };
    let payload = serde_json::to_vec(&admission).map_err(Failure::new)?;
    append(&args.by.database, &args.by.signer, "admit", &payload)
}

fn add(args: &LedgerAddArgs) -> Result<(), Failure> {
    let payload = match (&args.file, &args.text) {
        (Some(path), _) => open::read(path)?,
        (None, text) => text.clone().unwrap_or_default().into_bytes(),
    };
    if Payload::read(&args.kind, &payload) == Payload::Broken {
        let why = format_args!("the content is no payload of the kind {}", args.kind);
        return Err(Failure::new(why));
    }
    append(&args.by.database, &args.by.signer, &args.kind, &payload)
}

/// The changes of documents in a file, by name.
fn documents(path: &Path) -> Result<BTreeMap<String, BTreeSet<String>>, Failure> {
    let mut database = open::database(path, Access::ReadOnly)?;
    let names = database.documents().map_err(|error| open::about(path, &error))?;
    let mut all = BTreeMap::new();
    for stored in names {
        let document = database.load(&stored.name).map_err(|error| open::about(path, &error))?;
        let hashes = document.changes().map(|change| change.hash().to_string()).collect();
        all.insert(stored.name, hashes);
    }
    Ok(all)
}

/// The changes of documents signed by entries, by name.
fn signed(ledger: &mut Ledger<'_>) -> Result<BTreeMap<String, BTreeSet<String>>, Failure> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, _, entry) in ledger.entries()? {
        if let Payload::Document(signed) = Payload::read(&entry.kind, &entry.payload) {
            all.entry(signed.document).or_default().extend(signed.changes);
        }
    }
    Ok(all)
}

fn sign_documents(args: &LedgerDocumentsArgs) -> Result<(), Failure> {
    let path = &args.by.database;
    let signer = signer(&args.by.signer)?;
    let stored = documents(path)?;
    for name in &args.names {
        if !stored.contains_key(name) {
            let why = format_args!("no document is called {name}");
            return Err(Failure::at(path.display(), why));
        }
    }
    with(path, Access::Create, |ledger| {
        let known = signed(ledger)?;
        let none = BTreeSet::new();
        for (name, hashes) in stored {
            let wanted = args.names.is_empty() || args.names.contains(&name);
            let before = known.get(&name).unwrap_or(&none);
            let changes: Vec<String> = hashes.difference(before).cloned().collect();
            if !wanted || changes.is_empty() {
                continue;
            }
            let count = changes.len();
            let payload = SignedChanges { document: name.clone(), changes };
            let payload = serde_json::to_vec(&payload).map_err(Failure::new)?;
            let entry = NewEntry { time_ms: now(), kind: "document", payload: &payload };
            ledger.append(&signer, &entry)?;
            out::note(format_args!("{name}: {count} changes signed"));
        }
        Ok(())
    })
}

fn head(args: &LedgerHeadArgs) -> Result<(), Failure> {
    let access = if args.signer.is_some() { Access::Create } else { Access::ReadOnly };
    with(&args.database, access, |ledger| {
        let head = ledger.head()?;
        let text = serde_json::to_string(&head).map_err(Failure::new)?;
        if let Some(key) = &args.signer {
            let payload = text.as_bytes();
            let entry = NewEntry { time_ms: now(), kind: "head", payload };
            ledger.append(&signer(key)?, &entry)?;
        }
        Ok(out::line(text)?)
    })
}

fn prove(args: &LedgerProveArgs) -> Result<(), Failure> {
    with(&args.database, Access::ReadOnly, |ledger| {
        let entries = ledger.entries()?;
        let Some(index) = entries.iter().position(|(id, _, _)| *id == args.entry) else {
            let why = format_args!("the ledger has no entry {}", args.entry);
            return Err(Failure::at(args.database.display(), why));
        };
        let id = ledger.id();
        let leaves: Vec<_> = entries.iter().map(|(_, _, entry)| entry.hash(&id)).collect();
        let proof = merkle::inclusion(&leaves, index).unwrap_or_default();
        let proof: Vec<String> = proof.iter().map(|hash| hex::encode(hash)).collect();
        let (leaf, root) = (hex::encode(&leaves[index]), hex::encode(&merkle::root(&leaves)));
        let size = leaves.len();
        let shown = json!({"leaf": leaf, "index": index, "size": size, "root": root,
            "proof": proof});
        Ok(out::line(shown)?)
    })
}

fn log(path: &Path) -> Result<(), Failure> {
    with(path, Access::ReadOnly, |ledger| {
        let mut names: BTreeMap<WriterId, String> = BTreeMap::new();
        for (id, _, entry) in ledger.entries()? {
            let payload = Payload::read(&entry.kind, &entry.payload);
            if let Payload::Join(join) = &payload {
                names.insert(entry.writer, join.name.clone());
            }
            let name = names.get(&entry.writer).cloned();
            let name = name.unwrap_or_else(|| hex::encode(&entry.writer[..6]));
            let shown = match &payload {
                Payload::Changeset(tables) => tables.join(", "),
                _ => String::from_utf8_lossy(&entry.payload).chars().take(100).collect(),
            };
            let when = time::utc(entry.time_ms.div_euclid(1000));
            let (sequence, kind) = (entry.sequence, &entry.kind);
            out::line(format_args!("{id}\t{when}\t{name} {sequence}\t{kind}\t{shown:?}"))?;
        }
        Ok(())
    })
}

fn verify(args: &LedgerVerifyArgs) -> Result<(), Failure> {
    let roots: Vec<WriterId> =
        args.roots.iter().map(|text| writer(text)).collect::<Result<_, _>>()?;
    let head = match &args.head {
        None => None,
        Some(path) => {
            let head = serde_json::from_slice(&open::read(path)?);
            Some(head.map_err(|error| Failure::at(path.display(), error))?)
        }
    };
    let stored = documents(&args.database)?;
    with(&args.database, Access::ReadOnly, |ledger| {
        let options = VerifyOptions { roots: &roots, head: head.as_ref() };
        let report = ledger.verify(&options)?;
        let (entries, writers) = (report.entries, report.writers);
        out::line(format_args!("{entries} entries of {writers} writers"))?;
        for fault in &report.faults {
            match fault.id {
                0 => out::line(format_args!("wrong: {}", fault.kind))?,
                id => out::line(format_args!("wrong: entry {id}: {}", fault.kind))?,
            }
        }
        let mut lost = 0;
        for (name, changes) in signed(ledger)? {
            let none = BTreeSet::new();
            let present = stored.get(&name).unwrap_or(&none);
            let missing = changes.difference(present).count();
            if missing > 0 {
                lost += missing;
                out::line(format_args!(
                    "wrong: document {name}: {missing} signed changes are gone"
                ))?;
            }
            let unsigned = present.difference(&changes).count();
            if unsigned > 0 {
                out::line(format_args!("unsigned: document {name}: {unsigned} changes"))?;
            }
        }
        for unknown in &report.unknown {
            out::line(format_args!("not known: {unknown}"))?;
        }
        if report.holds() && lost == 0 {
            return Ok(out::line("everything else holds")?);
        }
        Err(Failure::reported())
    })
}
