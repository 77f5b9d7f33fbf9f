//! Payloads understood by the ledger itself, as JSON.

use serde::{Deserialize, Serialize};
use shoal_diff::Reader;

/// The first entry of a writer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The writer's name, for people.
    pub name: String,
}

/// One writer lets another write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// The admitted writer, in hexadecimal.
    pub writer: String,
    /// The writer's scopes: names of tables, `document:NAME`, with `*` at the end for any
    /// rest; `admit` for letting others write.
    pub scopes: Vec<String>,
}

/// The writer's next entries are signed by another key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// The public key, in hexadecimal.
    pub key: String,
}

/// A writer is believed up to an entry, and no further.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// The writer, in hexadecimal.
    pub writer: String,
    /// The last sequence believed.
    pub last: u64,
}

/// A Merkle head: the entries of one file up to here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The file's log, in hexadecimal: copies gone apart have logs of their own.
    pub log: String,
    /// The number of entries.
    pub size: u64,
    /// The root over their hashes, in hexadecimal.
    pub root: String,
}

/// Automerge changes of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedChanges {
    /// The document's name.
    pub document: String,
    /// Hashes of changes, in hexadecimal.
    pub changes: Vec<String>,
}

/// A payload by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// `join`
    Join(Join),
    /// `admit`
    Admit(Admission),
    /// `rotate`
    Rotate(Rotation),
    /// `revoke`
    Revoke(Revocation),
    /// `head`
    Head(Head),
    /// `document`
    Document(SignedChanges),
    /// `changeset`: the tables changed.
    Changeset(Vec<String>),
    /// Any other kind: bytes of the program's own.
    Other,
    /// Bytes without a payload of their kind.
    Broken,
}

impl Payload {
    /// Reads a payload.
    pub fn read(kind: &str, bytes: &[u8]) -> Payload {
        fn json<'a, T: Deserialize<'a>>(bytes: &'a [u8], wrap: fn(T) -> Payload) -> Payload {
            serde_json::from_slice(bytes).map_or(Payload::Broken, wrap)
        }
        match kind {
            "join" => json(bytes, Payload::Join),
            "admit" => json(bytes, Payload::Admit),
            "rotate" => json(bytes, Payload::Rotate),
            "revoke" => json(bytes, Payload::Revoke),
            "head" => json(bytes, Payload::Head),
            "document" => json(bytes, Payload::Document),
            "changeset" => {
                let mut reader = Reader::new(bytes);
                let mut tables: Vec<String> = Vec::new();
                loop {
                    match reader.next() {
                        Ok(Some(change)) if tables.last() == Some(&change.head.table) => {}
                        Ok(Some(change)) => tables.push(change.head.table.clone()),
                        Ok(None) => return Payload::Changeset(tables),
                        Err(_) => return Payload::Broken,
                    }
                }
            }
            _ => Payload::Other,
        }
    }
}

/// True where one of the scopes covers a thing: a table in any case, `document:NAME`, or `admit`;
/// `*` at a scope's end stands for any rest of a name, and never for a thing of another kind.
pub(crate) fn covers(scopes: &[String], thing: &str) -> bool {
    scopes.iter().any(|scope| match scope.strip_suffix('*') {
        None if thing.starts_with(DOCUMENT) => scope == thing,
        None => scope.eq_ignore_ascii_case(thing),
        Some(start) if thing.starts_with(DOCUMENT) || start.starts_with(DOCUMENT) => {
            start.starts_with(DOCUMENT) && thing.starts_with(start)
        }
        Some(start) => thing != ADMIT && starts_with(thing, start),
    })
}

const DOCUMENT: &str = "document:";
const ADMIT: &str = "admit";

fn starts_with(thing: &str, start: &str) -> bool {
    thing.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_covers_things_of_its_kind() {
        let cases = [
            ("t", "T", true),
            ("t*", "Tab", true),
            ("*", "t", true),
            ("*", "document:a", false),
            ("*", "admit", false),
            ("d*", "document:a", false),
            ("a*", "admit", false),
            ("admit", "admit", true),
            ("document:a*", "document:ab", true),
            ("document:a*", "document:Ab", false),
            ("document:a", "document:A", false),
            ("document:*", "document:a*", true),
            ("document:a*", "document:*", false),
            ("document:*", "document", false),
        ];
        for (scope, thing, expect) in cases {
            assert_eq!(covers(&[scope.to_owned()], thing), expect, "{scope} {thing}");
        }
    }
}
