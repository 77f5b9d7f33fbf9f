//! Which states of its databases a connection has seen, so that a statement knows whether it would
//! read another one now.

use std::sync::atomic::{AtomicU64, Ordering};

use shoal_store::{Transaction, Version};

/// The states that the databases of a connection were last seen in, by the number of the database.
#[derive(Debug, Default)]
pub(super) struct States {
    seen: Vec<Option<Seen>>,
}

#[derive(Debug)]
struct Seen {
    /// What the store calls the state; it may call one state by several names.
    state_id: u64,
    version: Version,
    number: u64,
}

/// A number that is greater than all before it, so that of several databases the greatest one
/// stands for all.
fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl States {
    /// The number of the state that a transaction reads of a database. Cost: a load and a compare
    /// where the store has kept its pages.
    #[inline]
    pub(super) fn number(&mut self, database: usize, transaction: &Transaction) -> u64 {
        match self.seen.get(database) {
            Some(Some(seen)) if seen.state_id == transaction.state_id() => seen.number,
            _ => self.see(database, transaction),
        }
    }

    #[cold]
    fn see(&mut self, database: usize, transaction: &Transaction) -> u64 {
        let (state_id, version) = (transaction.state_id(), transaction.began_at());
        if self.seen.len() <= database {
            self.seen.resize_with(database + 1, || None);
        }
        let seen = &mut self.seen[database];
        let number = match seen {
            Some(seen) if seen.version == version => seen.number,
            _ => next_number(),
        };
        *seen = Some(Seen { state_id, version, number });
        number
    }

    /// As [`States::number`]; `None` where the state was not seen before.
    pub(super) fn known(&self, database: usize, transaction: &Transaction) -> Option<u64> {
        let seen = self.seen.get(database)?.as_ref()?;
        let same =
            seen.state_id == transaction.state_id() || seen.version == transaction.began_at();
        same.then_some(seen.number)
    }

    /// Notes that the connection itself changed what it reads of a database, or took that back.
    pub(super) fn changed(&mut self, database: usize) {
        if let Some(Some(seen)) = self.seen.get_mut(database) {
            seen.number = next_number();
        }
    }

    /// Forgets a database that is attached no more; those behind it have new numbers.
    pub(super) fn detached(&mut self, database: usize) {
        if database < self.seen.len() {
            self.seen.remove(database);
        }
    }
}
