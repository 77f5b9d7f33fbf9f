//! Databases of documents, and what stands beside one: a document engine with a file, tables kept
//! by hand.

#[cfg(feature = "automerge")]
mod automerge;
#[cfg(feature = "loro")]
mod loro;
#[cfg(feature = "rusqlite")]
mod sqlite;

use shoal_lab::Contenders;

pub(crate) fn add(contenders: &mut Contenders) {
    #[cfg(feature = "automerge")]
    contenders.database(automerge::Files);
    #[cfg(feature = "loro")]
    contenders.database(loro::Files);
    #[cfg(feature = "rusqlite")]
    contenders.database(sqlite::ByHand);
    let _ = contenders;
}
