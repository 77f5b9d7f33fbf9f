//! The verbs, one file each.

pub(crate) mod argon2;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod doc;
pub(crate) mod dump;
pub(crate) mod mine;
pub(crate) mod password;
pub(crate) mod sql;
pub(crate) mod tour;
