//! Shoal's own engines as contenders.

mod db;
#[cfg(any(feature = "gpu", feature = "cuda"))]
mod device;
mod document;
mod hash;
mod miner;
mod sealed;
mod table;
mod typed;

use crate::contenders::Contenders;

/// Shoal's engines and nobody else's; one of them also writes the generated databases.
pub fn alone() -> Contenders {
    let mut contenders = Contenders::new();
    add(&mut contenders);
    contenders.generate_with(typed::Typed(table::Form::InTransaction));
    contenders
}

/// Adds every engine of ours; engines still to come are named as not built.
pub fn add(contenders: &mut Contenders) {
    contenders.document(document::Documents);
    contenders.table(table::Tables(table::Form::Autocommit));
    contenders.table(table::Tables(table::Form::InTransaction));
    contenders.table(table::Tables(table::Form::Exclusive));
    contenders.table(typed::Typed(table::Form::InTransaction));
    contenders.table(typed::Typed(table::Form::Exclusive));
    for form in sealed::FORMS {
        contenders.sealed(sealed::Sealed::new(form));
    }
    contenders.database(db::Documents);
    hash::add(contenders);
}
