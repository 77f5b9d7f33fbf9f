//! Document engines.

#[cfg(feature = "automerge")]
mod automerge;
#[cfg(feature = "diamond-types")]
mod diamond_types;
#[cfg(feature = "loro")]
mod loro;
#[cfg(feature = "yrs")]
mod yrs;

use shoal_lab::Contenders;

pub(crate) fn add(contenders: &mut Contenders) {
    #[cfg(feature = "automerge")]
    contenders.document(automerge::Reference);
    #[cfg(feature = "loro")]
    contenders.document(loro::Loro);
    #[cfg(feature = "yrs")]
    contenders.document(yrs::Yrs);
    #[cfg(feature = "diamond-types")]
    contenders.document(diamond_types::DiamondTypes);
    let _ = contenders;
}
