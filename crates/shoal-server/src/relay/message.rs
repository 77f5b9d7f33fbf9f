//! Messages between relays: their subjects, and the bytes of pointers.

use serde_json::{Value as Json, json};
use shoal_history::{Change, ChangeHash, Limits};
use shoal_sync::DocumentId;

/// Characters of an object's name.
const OBJECT_MAX: usize = 128;

/// A document's latest snapshot in the object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    /// The object.
    pub(super) object: String,
    /// The heads of the document in the object.
    pub(super) heads: Vec<ChangeHash>,
}

impl Pointer {
    /// The message.
    pub(super) fn encode(&self) -> Vec<u8> {
        let heads: Vec<String> =
            self.heads.iter().map(|head| shoal_stdx::hex::encode(&head.0)).collect();
        json!({ "object": self.object, "heads": heads }).to_string().into_bytes()
    }

    /// Reads a message of a stranger; `None` for all else. Cost: the bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let json: Json = serde_json::from_slice(bytes).ok()?;
        let object = json.get("object")?.as_str()?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if object.is_empty() || object.len() > OBJECT_MAX || !object.bytes().all(is_name) {
            return None;
        }
        let heads =
            json.get("heads")?.as_array()?.iter().map(|head| ChangeHash::from_hex(head.as_str()?));
        let heads: Vec<ChangeHash> = heads.collect::<Option<_>>()?;
        (!heads.is_empty()).then(|| Self { object: object.to_owned(), heads })
    }
}

/// The document of a subject `PREFIX.ID`, in the one spelling of its id.
pub(super) fn document(subject: &str, prefix: &str) -> Option<DocumentId> {
    let token = subject.strip_prefix(prefix)?.strip_prefix('.')?;
    DocumentId::parse(token).ok().filter(|id| id.as_str() == token)
}

/// The one change of a message.
pub(super) fn change(bytes: &[u8]) -> Option<Change> {
    Change::from_bytes_within(bytes, &Limits::default()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_come_back_and_damaged_ones_do_not() {
        let heads = vec![ChangeHash([1; 32]), ChangeHash([0xfe; 32])];
        let pointer = Pointer { object: "2akvofn6-00ff".to_owned(), heads };
        let bytes = pointer.encode();
        assert_eq!(Pointer::decode(&bytes), Some(pointer));
        for cut in 0..bytes.len() {
            assert_eq!(Pointer::decode(&bytes[..cut]), None);
        }
        let odd = [
            r#"{"object":"","heads":[]}"#,
            r#"{"object":"a","heads":[]}"#,
            r#"{"object":"a/b","heads":["00"]}"#,
            r#"{"object":"a","heads":["zz"]}"#,
            r#"{"object":"a","heads":[7]}"#,
            "[[[[",
        ];
        for odd in odd {
            assert_eq!(Pointer::decode(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn subjects_name_documents_in_one_spelling() {
        let id = DocumentId::from_bytes([3; 16]);
        assert_eq!(document(&format!("a.change.{id}"), "a.change"), Some(id.clone()));
        let odd =
            [format!("a.change.{}", id.url()), format!("b.change.{id}"), "a.change".to_owned()];
        for odd in odd {
            assert_eq!(document(&odd, "a.change"), None, "{odd}");
        }
        assert!(change(b"no change").is_none());
    }
}
