//! Merkle trees over hashes, as RFC 9162 has them: leaf SHA-256(0, hash), node SHA-256(1, left,
//! right), a tree of n leaves split at the largest power of two below n.

use sha2::{Digest, Sha256};

use crate::Hash;

/// The root of a tree; of no leaves, the hash of nothing.
pub fn root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => Sha256::digest([]).into(),
        [leaf] => leaf_hash(leaf),
        _ => {
            let (left, right) = leaves.split_at(split(leaves.len()));
            node_hash(&root(left), &root(right))
        }
    }
}

/// A tree growing leaf by leaf: its root at every size, for a few hashes each.
#[derive(Clone, Debug, Default)]
pub struct Growing {
    size: u64,
    /// The roots of whole subtrees, largest first: one for each bit of the size.
    whole: Vec<Hash>,
}

impl Growing {
    /// Adds a leaf.
    pub fn push(&mut self, leaf: &Hash) {
        let mut hash = leaf_hash(leaf);
        for _ in 0..self.size.trailing_ones() {
            let left = self.whole.pop().expect("each bit of the size has a subtree");
            hash = node_hash(&left, &hash);
        }
        self.whole.push(hash);
        self.size += 1;
    }

    /// The root of the leaves so far.
    pub fn root(&self) -> Hash {
        let mut subtrees = self.whole.iter().rev();
        let Some(last) = subtrees.next() else { return root(&[]) };
        subtrees.fold(*last, |right, left| node_hash(left, &right))
    }
}

/// The hashes beside the way from a leaf to the root, lowest first; `None` past the end.
pub fn inclusion(leaves: &[Hash], index: usize) -> Option<Vec<Hash>> {
    if index >= leaves.len() {
        return None;
    }
    if leaves.len() == 1 {
        return Some(Vec::new());
    }
    let (left, right) = leaves.split_at(split(leaves.len()));
    let (mut proof, beside) = match index < left.len() {
        true => (inclusion(left, index)?, root(right)),
        false => (inclusion(right, index - left.len())?, root(left)),
    };
    proof.push(beside);
    Some(proof)
}

/// True where `proof` shows `leaf` to be number `index` of the `size` leaves under `root`.
pub fn is_included(leaf: &Hash, index: u64, size: u64, proof: &[Hash], root: &Hash) -> bool {
    if index >= size {
        return false;
    }
    let (mut at, mut last) = (index, size - 1);
    let mut hash = leaf_hash(leaf);
    for beside in proof {
        if last == 0 {
            return false;
        }
        if at % 2 == 1 || at == last {
            hash = node_hash(beside, &hash);
            while at % 2 == 0 && at != 0 {
                at >>= 1;
                last >>= 1;
            }
        } else {
            hash = node_hash(&hash, beside);
        }
        at >>= 1;
        last >>= 1;
    }
    last == 0 && hash == *root
}

/// The consistency proof: the tree of the first `size` leaves begins the tree of all `leaves`;
/// `None` for a size of 0 or past the end.
pub fn consistency(leaves: &[Hash], size: usize) -> Option<Vec<Hash>> {
    if size == 0 || size > leaves.len() {
        return None;
    }
    Some(continued(leaves, size, true))
}

fn continued(leaves: &[Hash], size: usize, is_whole: bool) -> Vec<Hash> {
    if size == leaves.len() {
        return if is_whole { Vec::new() } else { vec![root(leaves)] };
    }
    let (left, right) = leaves.split_at(split(leaves.len()));
    let (mut proof, beside) = match size <= left.len() {
        true => (continued(left, size, is_whole), root(right)),
        false => (continued(right, size - left.len(), false), root(left)),
    };
    proof.push(beside);
    proof
}

/// True where `proof` shows the tree of `size` leaves under `root` to begin with the
/// `old_size` leaves under `old_root`.
pub fn is_continued(
    old_size: u64,
    old_root: &Hash,
    size: u64,
    root: &Hash,
    proof: &[Hash],
) -> bool {
    if old_size == 0 || old_size > size {
        return false;
    }
    if old_size == size {
        return proof.is_empty() && old_root == root;
    }
    let is_power = old_size.is_power_of_two();
    let mut hashes = proof.iter();
    let first = match is_power {
        true => old_root,
        false => match hashes.next() {
            Some(first) => first,
            None => return false,
        },
    };
    let (mut at, mut last) = (old_size - 1, size - 1);
    while at % 2 == 1 {
        at >>= 1;
        last >>= 1;
    }
    let (mut old, mut new) = (*first, *first);
    for beside in hashes {
        if last == 0 {
            return false;
        }
        if at % 2 == 1 || at == last {
            old = node_hash(beside, &old);
            new = node_hash(beside, &new);
            while at % 2 == 0 && at != 0 {
                at >>= 1;
                last >>= 1;
            }
        } else {
            new = node_hash(&new, beside);
        }
        at >>= 1;
        last >>= 1;
    }
    last == 0 && old == *old_root && new == *root
}

/// The largest power of two below a length of at least 2.
fn split(length: usize) -> usize {
    length.next_power_of_two() / 2
}

fn leaf_hash(leaf: &Hash) -> Hash {
    Sha256::new().chain_update([0]).chain_update(leaf).finalize().into()
}

fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(count: u8) -> Vec<Hash> {
        (0..count).map(|number| Sha256::digest([number]).into()).collect()
    }

    #[test]
    fn every_leaf_is_proved_and_no_other() {
        for count in 1..20_u8 {
            let all = leaves(count);
            let top = root(&all);
            for (index, leaf) in all.iter().enumerate() {
                let proof = inclusion(&all, index).unwrap();
                let (index, size) = (index as u64, u64::from(count));
                assert!(is_included(leaf, index, size, &proof, &top), "{index} of {count}");
                assert!(!is_included(&[7; 32], index, size, &proof, &top));
                assert!(!is_included(leaf, index + 1, size, &proof, &top));
                if let Some((_, short)) = proof.split_last() {
                    assert!(!is_included(leaf, index, size, short, &top));
                }
            }
            assert!(inclusion(&all, all.len()).is_none());
        }
    }

    #[test]
    fn every_beginning_is_proved_and_no_other() {
        for count in 1..20_u8 {
            let all = leaves(count);
            let top = root(&all);
            for size in 1..=all.len() {
                let old = root(&all[..size]);
                let proof = consistency(&all, size).unwrap();
                let (size, count) = (size as u64, u64::from(count));
                assert!(is_continued(size, &old, count, &top, &proof), "{size} of {count}");
                assert!(!is_continued(size, &[7; 32], count, &top, &proof));
                assert!(!is_continued(size, &old, count, &[7; 32], &proof));
            }
        }
        assert!(consistency(&leaves(3), 0).is_none() && consistency(&leaves(3), 4).is_none());
    }

    #[test]
    fn a_growing_tree_has_the_root_of_its_leaves() {
        let all = leaves(40);
        let mut growing = Growing::default();
        for size in 0..=all.len() {
            assert_eq!(growing.root(), root(&all[..size]), "{size}");
            if let Some(leaf) = all.get(size) {
                growing.push(leaf);
            }
        }
    }

    #[test]
    fn the_empty_tree_is_the_hash_of_nothing() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(shoal_stdx::hex::encode(&root(&[])), empty);
    }
}
