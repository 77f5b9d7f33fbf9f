//! What people see while it mines: lines, or a screen.

mod plain;
mod screen;
mod text;

pub use plain::plain;
pub use screen::{Keys, Screen, TerminalKeys};

/// The hash rate and what became of shares, in one line.
pub fn summary(state: &crate::board::State) -> String {
    text::stats(state)
}
