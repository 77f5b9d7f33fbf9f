//! Shoal's own engines as contenders.

mod hash;

use crate::contenders::Contenders;
use crate::engine::{About, Miss};
use crate::workload::Family;

/// Adds every engine of ours; those still to come are named as not built.
pub fn add(contenders: &mut Contenders) {
    contenders.absent(Family::Doc, About::ours("shoal", ""), Miss::not_built());
    contenders.absent(Family::Table, About::ours("shoal", ""), Miss::not_built());
    hash::add(contenders);
}
