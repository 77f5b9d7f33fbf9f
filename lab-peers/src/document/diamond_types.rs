//! `diamond-types`: one text, and nothing else.

use diamond_types::list::ListCRDT;
use diamond_types::list::encoding::{ENCODE_FULL, ENCODE_PATCH};
use diamond_types::{AgentId, LocalVersion};
use shoal_lab::engine::{About, DocEngine, Miss};

pub(crate) struct DiamondTypes;

/// A text with the agent typing in the text.
pub(crate) struct Typed {
    crdt: ListCRDT,
    agent: AgentId,
}

fn typed(mut crdt: ListCRDT, actor: u16) -> Typed {
    let agent = crdt.get_or_create_agent_id(&format!("agent{actor}"));
    Typed { crdt, agent }
}

fn failed<T>(result: Result<T, impl std::fmt::Debug>) -> Result<T, Miss> {
    result.map_err(|error| Miss::Failed(format!("{error:?}")))
}

impl DocEngine for DiamondTypes {
    type Doc = Typed;
    type Tx<'a> = &'a mut Typed;
    type Obj = ();
    type Heads = LocalVersion;
    type Cursor = ();
    type Session = ();

    fn about(&self) -> About {
        About::peer(
            "diamond-types",
            "1.0",
            "a text only; it has no transactions, so one and many are the same to it; deleted text \
             is not kept, so its history is less than the others'",
        )
    }

    fn create(&self, actor: u16) -> Result<Typed, Miss> {
        Ok(typed(ListCRDT::new(), actor))
    }

    fn transact<R>(
        &self,
        doc: &mut Typed,
        work: impl FnOnce(&mut &mut Typed) -> Result<R, Miss>,
    ) -> Result<R, Miss> {
        let mut doc = doc;
        work(&mut doc)
    }

    fn create_text(&self, actor: u16) -> Result<(Typed, ()), Miss> {
        Ok((self.create(actor)?, ()))
    }

    fn find_text(&self, _doc: &Typed) -> Result<(), Miss> {
        Ok(())
    }

    fn splice(
        &self,
        tx: &mut &mut Typed,
        _obj: &(),
        place: usize,
        delete: usize,
        insert: &str,
    ) -> Result<(), Miss> {
        let agent = tx.agent;
        if delete > 0 {
            tx.crdt.delete_without_content(agent, place..place + delete);
        }
        if !insert.is_empty() {
            tx.crdt.insert(agent, place, insert);
        }
        Ok(())
    }

    fn length(&self, doc: &Typed, _obj: &()) -> Result<usize, Miss> {
        Ok(doc.crdt.len())
    }

    fn text(&self, doc: &Typed, _obj: &()) -> Result<String, Miss> {
        Ok(doc.crdt.branch.content().to_string())
    }

    fn heads(&self, doc: &mut Typed) -> Result<LocalVersion, Miss> {
        Ok(doc.crdt.oplog.local_version())
    }

    fn text_at(&self, doc: &Typed, _obj: &(), heads: &LocalVersion) -> Result<String, Miss> {
        Ok(doc.crdt.oplog.checkout(heads).content().to_string())
    }

    fn save(&self, doc: &mut Typed) -> Result<Vec<u8>, Miss> {
        Ok(doc.crdt.oplog.encode(ENCODE_FULL))
    }

    fn load(&self, bytes: &[u8], actor: u16) -> Result<Typed, Miss> {
        Ok(typed(failed(ListCRDT::load_from(bytes))?, actor))
    }

    fn history(&self, doc: &mut Typed) -> Result<usize, Miss> {
        Ok(doc.crdt.oplog.iter().count())
    }

    fn fork(&self, doc: &mut Typed, actor: u16) -> Result<Typed, Miss> {
        Ok(typed(doc.crdt.clone(), actor))
    }

    fn changes(&self, doc: &mut Typed, since: Option<&LocalVersion>) -> Result<Vec<Vec<u8>>, Miss> {
        let since = since.map_or(&[][..], |version| version.as_slice());
        Ok(vec![doc.crdt.oplog.encode_from(ENCODE_PATCH, since)])
    }

    fn apply(&self, doc: &mut Typed, changes: &[Vec<u8>]) -> Result<(), Miss> {
        for change in changes {
            failed(doc.crdt.oplog.decode_and_add(change))?;
        }
        let tip = doc.crdt.oplog.local_version();
        doc.crdt.branch.merge(&doc.crdt.oplog, &tip);
        Ok(())
    }
}
