//! Authors: a name in an actor's first change, in the bytes behind the ops. A person with several
//! devices, and so several actors, is one author.

use super::Change;
use crate::column::leb128::{Reader, write_length_prefixed, write_uleb};

/// The first number behind the ops of a change with an author's name.
const AUTHOR: u64 = 1;

impl Change {
    /// The author named by the change. Only the first change of an actor can name one; extra bytes
    /// of others mean something else.
    pub fn author(&self) -> Option<&[u8]> {
        if self.seq() != 1 {
            return None;
        }
        let mut reader = Reader::new(self.extra_bytes());
        match reader.uleb() {
            Ok(AUTHOR) => {
                let len = usize::try_from(reader.uleb().ok()?).ok()?;
                reader.bytes(len).ok()
            }
            _ => None,
        }
    }

    /// The extra bytes for naming the author in an actor's first change.
    pub fn author_bytes(author: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(author.len() + 3);
        write_uleb(AUTHOR, &mut bytes);
        write_length_prefixed(author, &mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActorId, ActorIdx, ChangeHeader, ChangeWriter};

    fn change(seq: u32, extra_bytes: &[u8]) -> Change {
        let header = ChangeHeader {
            actor: ActorIdx(0),
            seq,
            start_op: 1,
            time: 0,
            message: None,
            deps: Vec::new(),
            extra_bytes,
        };
        ChangeWriter::new(header, &[ActorId::new(&[1])]).finish().unwrap()
    }

    #[test]
    fn only_a_first_change_names_an_author() {
        for author in [&b"me"[..], b"", &[7; 200]] {
            let bytes = Change::author_bytes(author);
            assert_eq!(change(1, &bytes).author(), Some(author));
            assert_eq!(change(2, &bytes).author(), None);
        }
        // Bytes behind the name are ignored; a cut name is none.
        assert_eq!(change(1, &[1, 1, 9, 9]).author(), Some(&[9][..]));
        for bytes in [&[][..], &[0, 1, 9], &[1], &[1, 2, 9], &[2, 1, 9]] {
            assert_eq!(change(1, bytes).author(), None, "{bytes:?}");
        }
    }
}
