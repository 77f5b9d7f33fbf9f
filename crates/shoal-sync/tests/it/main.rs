//! The state machine in whole systems, and under abuse.

mod abuse;
mod disk;
mod rights;
mod simulation;
