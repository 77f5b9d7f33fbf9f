//! Shoal's own engines as contenders.

mod document;
mod hash;
mod table;
mod typed;

use crate::contenders::Contenders;

/// Adds every engine of ours; those still to come are named as not built.
pub fn add(contenders: &mut Contenders) {
    contenders.document(document::Documents);
    contenders.table(table::Tables(table::Form::Autocommit));
    contenders.table(table::Tables(table::Form::InTransaction));
    contenders.table(table::Tables(table::Form::Exclusive));
    contenders.table(typed::Typed(table::Form::InTransaction));
    contenders.table(typed::Typed(table::Form::Exclusive));
    hash::add(contenders);
}

/// Lets our tables write the generated databases, where no one else was chosen for it before.
pub fn generate(contenders: &mut Contenders) {
    contenders.generate_with(typed::Typed(table::Form::InTransaction));
}
