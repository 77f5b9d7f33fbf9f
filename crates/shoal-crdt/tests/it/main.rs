//! Documents, beside the reference: one program, so that both engines are linked once.
#![allow(clippy::unwrap_used)]

mod anonymize;
mod autocommit;
mod behaviours;
mod conformance;
mod corpus;
mod document;
mod expanded;
mod fragments;
mod growth;
mod hostile;
mod isolated;
mod joined;
mod json_patch;
mod lengths;
mod mirror;
mod mirrored;
mod patches;
mod reference;
mod rescue;
mod rows;
mod scenarios;
mod small;
mod stalled;
mod sync;
mod threads;
mod traces;
mod unknown;
mod updates;
mod values;
mod whole;
