//! Things the standard library might have had. Imports nothing; a thing with a domain noun does not
//! live here.

#![forbid(unsafe_code)]

pub mod hex;
