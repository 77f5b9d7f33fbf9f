//! The state machine in whole systems, and under abuse.

mod abuse;
mod disk;
mod mutated;
mod rights;
mod simulation;
