//! How large a tree is: about, by a look into its middle, or exactly, by its pages' headers.

use shoal_format::{Page, Pgno};

use crate::cursor::{Path, TreeKind};
use crate::{BtreeKind, Error, Transaction};

/// Statistics taken from one path through a tree: from the root to a leaf in the middle.
#[derive(Clone, Debug)]
pub struct Sample<'t> {
    /// About how many rows or entries there are.
    pub count: u64,
    /// About how many leaves there are.
    pub leaves: u64,
    /// The root, whose cells part the tree into as many pieces of about one size.
    pub root: Page<'t>,
    /// The children of a root of few, where there are more pages below: their cells, and the
    /// root's between, part the tree into more pieces. None below a root of many.
    pub children: Vec<Page<'t>>,
    /// The leaf in the middle.
    pub leaf: Page<'t>,
}

impl Transaction {
    /// Looks at one page of each level of the tree at `root` and takes the others for its like;
    /// below a root of a few children, at one path for each of them.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn sample(&self, root: Pgno, kind: BtreeKind) -> Result<Sample<'_>, Error> {
        self.check_pgno(root)?;
        let mut path = Path::new(self, root, tree_kind(kind));
        path.restart()?;
        let root = path.page();
        let mut leaves = 1_u64;
        let mut parts = Vec::new();
        if !path.is_leaf() {
            let children = path.cell_count() + 1;
            let middle = children / 2;
            if children > ROOT_CHILDREN_MAX {
                leaves = leaves_below(&mut path, middle, None)?.saturating_mul(children as u64);
            } else {
                // The last of few children has just begun to fill, and tells nothing of the others.
                let mut others = 0_u64;
                for child in (0..children).filter(|&child| child != middle) {
                    let below = leaves_below(&mut path, child, Some(&mut parts))?;
                    others = others.saturating_add(below);
                    path.restart()?;
                }
                leaves = leaves_below(&mut path, middle, Some(&mut parts))?.saturating_add(others);
                if parts.len() == children {
                    parts[middle..].rotate_right(1);
                } else {
                    parts.clear();
                }
            }
        }
        let leaf = path.page();
        let count = leaves.saturating_mul(leaf.cell_count() as u64);
        Ok(Sample { count, leaves, root, children: parts, leaf })
    }

    /// Up to `count` leaves of the tree at `root`, spread evenly over it, in the tree's order: all
    /// of a tree that has no more. Costs a descent each.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn sample_leaves(
        &self,
        root: Pgno,
        kind: BtreeKind,
        count: usize,
    ) -> Result<Vec<Page<'_>>, Error> {
        self.check_pgno(root)?;
        let mut path = Path::new(self, root, tree_kind(kind));
        let mut leaves = Vec::with_capacity(count);
        let (mut way, mut way_before) = (Vec::new(), Vec::new());
        for number in 0..count {
            // The part of the tree before the leaf, level by level.
            let mut before = (number as f64 + 0.5) / count as f64;
            path.restart()?;
            way.clear();
            while !path.is_leaf() {
                let children = path.cell_count() + 1;
                let place = before * children as f64;
                path.index = (place as usize).min(children - 1);
                before = place - path.index as f64;
                way.push(path.index);
                path.push_child()?;
            }
            if number == 0 || way != way_before {
                leaves.push(path.page());
            }
            std::mem::swap(&mut way, &mut way_before);
        }
        Ok(leaves)
    }

    /// Counts the entries of the index at `root`. No entry is read: only the pages' headers are.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn count_entries(&self, root: Pgno) -> Result<u64, Error> {
        self.check_pgno(root)?;
        let mut path = Path::new(self, root, TreeKind::Index);
        path.restart()?;
        let mut count = 0_u64;
        loop {
            path.down_first()?;
            count = count.saturating_add(path.cell_count() as u64);
            loop {
                if !path.pop()? {
                    return Ok(count);
                }
                // The entry right after everything below the child just left.
                if path.index < path.cell_count() {
                    count = count.saturating_add(1);
                    path.index += 1;
                    break;
                }
            }
        }
    }
}

/// Goes down to the leaf in the middle of a child; gives about how many leaves are below the child.
/// The child itself, unless it is a leaf, goes to `parts`.
fn leaves_below<'t>(
    path: &mut Path<'t>,
    child: usize,
    parts: Option<&mut Vec<Page<'t>>>,
) -> Result<u64, Error> {
    path.index = child;
    path.push_child()?;
    if let Some(parts) = parts.filter(|_| !path.is_leaf()) {
        parts.push(path.page());
    }
    let mut leaves = 1_u64;
    while !path.is_leaf() {
        let children = path.cell_count() + 1;
        leaves = leaves.saturating_mul(children as u64);
        path.index = children / 2;
        path.push_child()?;
    }
    Ok(leaves)
}

/// A root of so few children has all of them looked at.
const ROOT_CHILDREN_MAX: usize = 8;

fn tree_kind(kind: BtreeKind) -> TreeKind {
    match kind {
        BtreeKind::Table => TreeKind::Table,
        BtreeKind::Index => TreeKind::Index,
    }
}
