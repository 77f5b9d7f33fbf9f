//! Walks over the tree: run after run, or element after element.

use super::super::index::NONE;
use super::super::leaf::Leaf;
use super::super::run::{ElemView, Kind, RunView};
use super::{Place, Tree};

impl Tree {
    /// Every run, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = RunView<'_>> {
        self.leaves_in_order().flat_map(Leaf::views)
    }

    pub(super) fn leaves_in_order(&self) -> impl Iterator<Item = &Leaf> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let leaf = self.leaves.get(next)?;
            next = if leaf.next == NONE { NONE } else { leaf.next };
            Some(leaf)
        })
    }

    /// The elements from `from` on, in order.
    pub(crate) fn elements(&self, from: Place) -> Elements<'_> {
        let leaf = self.leaf(from.leaf);
        let (mut text, mut scalars) = leaf.starts(from.run as usize);
        if let Some(run) = leaf.runs.get(from.run as usize) {
            let view = leaf.view_from(run, text, scalars);
            match run.kind {
                Kind::Chars => text += view.byte_at(from.at),
                Kind::Scalars => scalars += from.at as usize,
                Kind::Object | Kind::Mark | Kind::Register => {}
            }
        }
        Elements { tree: self, leaf, run: from.run as usize, at: from.at, text, scalars }
    }
}

/// Elements in order.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a> {
    tree: &'a Tree,
    leaf: &'a Leaf,
    run: usize,
    at: u32,
    text: usize,
    scalars: usize,
}

impl<'a> Iterator for Elements<'a> {
    type Item = ElemView<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let run = loop {
            match self.leaf.runs.get(self.run) {
                Some(run) if self.at < run.len => break run,
                Some(_) => {
                    self.run += 1;
                    self.at = 0;
                }
                None => {
                    self.leaf = self.tree.leaves.get(self.leaf.next)?;
                    (self.run, self.at, self.text, self.scalars) = (0, 0, 0, 0);
                }
            }
        };
        let elem = self.leaf.element(run, self.at, &mut self.text, &mut self.scalars);
        self.at += 1;
        Some(elem)
    }
}
