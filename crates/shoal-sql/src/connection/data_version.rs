//! `PRAGMA data_version`: a number that changes when others commit, and not with the connection's
//! own commits.

use shoal_store::Version;

/// What a connection has seen of its databases. Nothing is kept of one that nobody asked about.
#[derive(Debug, Default)]
pub(super) struct DataVersions {
    known: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    database: usize,
    version: Version,
    number: i64,
}

impl DataVersions {
    /// The number of a database that is at `version` now.
    pub(super) fn number(&mut self, database: usize, version: Version) -> i64 {
        match self.known.iter_mut().find(|known| known.database == database) {
            Some(known) => {
                if known.version != version {
                    known.version = version;
                    known.number += 1;
                }
                known.number
            }
            None => {
                self.known.push(Known { database, version, number: 1 });
                1
            }
        }
    }

    /// True when anybody asked about a database.
    pub(super) fn knows(&self, database: usize) -> bool {
        self.known.iter().any(|known| known.database == database)
    }

    /// Forgets a database that is attached no more, and numbers those behind it anew.
    pub(super) fn detached(&mut self, database: usize) {
        self.known.retain(|known| known.database != database);
        for known in &mut self.known {
            if known.database > database {
                known.database -= 1;
            }
        }
    }

    /// Notes the connection's own step of a database from one state to the next. Where another
    /// connection came between or before, the states say so the next time.
    pub(super) fn own_commit(&mut self, database: usize, before: &Version, after: Version) {
        let known = self.known.iter_mut().find(|known| known.database == database);
        if let Some(known) = known.filter(|known| known.version == *before)
            && after.follows(before)
        {
            known.version = after;
        }
    }
}
