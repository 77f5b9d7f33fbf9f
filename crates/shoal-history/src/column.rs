//! Column codecs (format: column encodings). One file each; none knows the column or chunk it is
//! used for. Decoders borrow the bytes and never allocate; encoders keep their buffers when
//! cleared, so one of each serves any number of changes.

pub(crate) mod boolean;
pub(crate) mod delta;
pub(crate) mod leb128;
pub(crate) mod rle;
pub(crate) mod spec;
pub(crate) mod value;
