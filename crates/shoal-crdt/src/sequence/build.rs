//! Building a sequence from elements in document order.

use shoal_history::{OpId, Scalar};

use super::{NewRun, Sequence, Unit, new_run, register_run, tree};
use crate::actors::Actors;
use crate::register::{RegOp, Register};

/// A sequence in the making.
#[derive(Debug)]
pub(crate) struct Builder(tree::Builder);

impl Builder {
    pub(crate) fn new(unit: Unit) -> Self {
        Self(tree::Builder::new(unit))
    }

    /// Appends elements inserting the characters of `text`, ids counting up from `id`. `succ` is
    /// the op deleting the first one, and true if the ids of the other deletes count down.
    pub(crate) fn push_text(
        &mut self,
        id: OpId,
        reference: OpId,
        text: &str,
        succ: Option<(OpId, bool)>,
    ) {
        self.0.push_text(id, reference, text, succ);
    }

    /// The same for elements inserting `values`, none a string or a counter.
    pub(crate) fn push_scalars(
        &mut self,
        id: OpId,
        reference: OpId,
        values: impl ExactSizeIterator<Item = Scalar>,
        succ: Option<(OpId, bool)>,
    ) {
        self.0.push_scalars(id, reference, values, succ);
    }

    /// Takes the last element, pushed by a run, back as an op.
    pub(crate) fn reopen(&mut self) -> Option<RegOp> {
        self.0.pop()
    }

    /// Appends an element with its ops, the insert first. Takes them out of `ops`.
    pub(crate) fn push(
        &mut self,
        id: OpId,
        reference: OpId,
        ops: &mut Vec<RegOp>,
        actors: &Actors,
    ) {
        let mut character = [0; 4];
        let (unit, sides) = (self.0.unit, &mut self.0.sides);
        let new: NewRun<'_> = match ops.pop() {
            Some(op) if ops.is_empty() => new_run(reference, op, unit, sides, &mut character),
            Some(last) => {
                ops.push(last);
                register_run(id, reference, Register::from_rows(ops, actors), unit, sides)
            }
            None => return,
        };
        self.0.push(new);
    }

    pub(crate) fn finish(self, actors: &Actors) -> Sequence {
        Sequence { tree: self.0.finish(actors), hint: None }
    }
}
