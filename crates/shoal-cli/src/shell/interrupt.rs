//! Ctrl-C: stops the running statement, and without one the program.

use std::sync::{Mutex, MutexGuard, PoisonError};

use shoal_sql::{Connection, Interrupter};

use crate::failure::Failure;

/// The statement to be stopped by Ctrl-C.
static RUNNING: Mutex<Option<Interrupter>> = Mutex::new(None);

/// The exit status of a program ended by Ctrl-C.
const STATUS: i32 = 130;

fn running() -> MutexGuard<'static, Option<Interrupter>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on Ctrl-C does as this module says.
///
/// # Errors
/// When the system does not take the handler.
pub(crate) fn handle() -> Result<(), Failure> {
    let handler = || match running().take() {
        Some(statement) => statement.interrupt(),
        // Once more, or without a statement: whatever is half written is undone at the next start.
        None => std::process::exit(STATUS),
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::at("Ctrl-C", error))
}

/// A statement stopped by Ctrl-C, for the lifetime of this value.
pub(crate) struct Running;

impl Running {
    pub(crate) fn begin(connection: &Connection) -> Running {
        Running::begin_by(connection.interrupter())
    }

    pub(crate) fn begin_by(interrupter: Interrupter) -> Running {
        *running() = Some(interrupter);
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *running() = None;
    }
}
