//! The pool's word about our blocks, and shares of unknown fate settled by it.

use std::collections::{BTreeMap, VecDeque};

use crate::source::Share;

/// Notices of blocks of ours, and blocks of unknown fate.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// By height, the pool's notices of blocks of ours, less the accepted shares of ours at the
    /// height.
    notices: BTreeMap<u64, i32>,
    /// Blocks of unknown fate.
    open: VecDeque<Share>,
}

impl Blocks {
    /// The pool says something. Returns the share settled by a word about a block of ours.
    pub(super) fn hear(&mut self, kind: &str, message: &str) -> Option<Share> {
        let height = (kind == BLOCK_FOUND).then(|| height_in(message))??;
        self.count(height, 1);
        let at = self.open.iter().position(|share| share.task.height == height)?;
        if !self.is_confirmed(height) {
            return None;
        }
        self.count(height, -1);
        self.open.remove(at)
    }

    /// A share was accepted: where it is a block, the notice of its height is about it.
    pub(super) fn accept(&mut self, share: &Share) {
        if is_block(share) {
            self.count(share.task.height, -1);
        }
    }

    /// The fate of a share is unknown. `true` when the pool has confirmed its block already;
    /// otherwise a block is remembered for a later word.
    pub(super) fn settles(&mut self, share: &Share) -> bool {
        if !is_block(share) {
            return false;
        }
        if self.is_confirmed(share.task.height) {
            self.count(share.task.height, -1);
            return true;
        }
        self.open.push_back(share.clone());
        if self.open.len() > BLOCKS_MAX {
            self.open.pop_front();
        }
        false
    }

    fn is_confirmed(&self, height: u64) -> bool {
        self.notices.get(&height).is_some_and(|count| *count > 0)
    }

    fn count(&mut self, height: u64, by: i32) {
        *self.notices.entry(height).or_default() += by;
        while self.notices.len() > BLOCKS_MAX {
            self.notices.pop_first();
        }
    }
}

/// The number behind the word `block`.
fn height_in(words: &str) -> Option<u64> {
    let (_, rest) = words.rsplit_once("block ")?;
    let digits = rest.trim_start_matches('#');
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

fn is_block(share: &Share) -> bool {
    share.task.network_target.is_some_and(|target| target.is_met_by(&share.tag))
}

const BLOCK_FOUND: &str = "miner_block_found";
const BLOCKS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_height_of_a_block_is_read_from_the_pools_words() {
        for (words, expect) in [
            ("you found block 7", Some(7)),
            ("rig-2 found block #123!", Some(123)),
            ("you found block", None),
            ("block 99999999999999999999", None),
            ("", None),
        ] {
            assert_eq!(height_in(words), expect, "{words}");
        }
    }
}
