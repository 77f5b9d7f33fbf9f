//! `shoal read-workbook`: the process of `shoal import` that reads a workbook.

use crate::args::transfer::ReadWorkbookArgs;
use crate::failure::Failure;
use crate::import::workbook::reader;

pub(crate) fn run(args: &ReadWorkbookArgs) -> Result<(), Failure> {
    reader::run(&args.file, args.sheet)
}
