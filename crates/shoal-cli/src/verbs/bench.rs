//! `shoal bench`: the lab's rows, with Shoal's engines alone.

use shoal_lab::BenchArguments;

use crate::failure::Failure;

/// Runs the measurement. The lab prints its own table, progress and complaints.
pub(crate) fn run(args: &BenchArguments) -> Result<(), Failure> {
    match shoal_lab::bench(&["bench"], args.clone()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::reported()),
        Err(sentence) => Err(Failure::new(sentence)),
    }
}
