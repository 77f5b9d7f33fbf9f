//! Narrowed connections to one file: by principal, and by the rules of now.

use std::path::PathBuf;

use shoal::{Access, Database, Environment};
use shoal_sql::{Limits, Narrowed};

use crate::rules::RuleFile;

/// Narrowed connections kept open, of the principals who asked last.
const KEPT_MAX: usize = 16;

/// A principal without a narrowed connection. The words are for the principal, and name nothing of
/// the file; the fields are for whoever runs the server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotNarrowed {
    /// No rule grants the principal anything.
    #[error("no rule of this server grants you tables")]
    Nothing,
    /// A rule does not fit its table, for this reason.
    #[error("the rules of this server do not fit its tables; ask who runs it")]
    Unfit(String),
    /// The file cannot be opened.
    #[error("the database cannot be opened for reading")]
    Closed(#[source] shoal::Error),
}

/// Narrowed connections to one file, the last 16 of them kept open.
pub struct Principals {
    environment: Environment,
    path: PathBuf,
    limits: Limits,
    rules: RuleFile,
    access: Access,
    /// By principal, the last asked at the end.
    kept: Vec<(String, Narrowed)>,
}

impl Principals {
    /// Connections to the file at `path` with bounds on each statement, which read. Nothing is
    /// opened yet.
    pub fn new(environment: Environment, path: PathBuf, rules: RuleFile, limits: Limits) -> Self {
        let access = Access::ReadOnly;
        Self { environment, path, limits, rules, access, kept: Vec::new() }
    }

    /// The same, with connections that change rows as far as rules grant.
    #[must_use]
    pub fn writing(self) -> Self {
        Self { access: Access::ReadWrite, ..self }
    }

    /// Tries the rules of every principal that their file names, one connection after another.
    ///
    /// # Errors
    /// [`NotNarrowed`], of the first principal whose rules do not fit.
    pub fn check(&mut self) -> Result<(), NotNarrowed> {
        let (rules, _) = self.rules.current();
        let names: Vec<String> = rules.principals().map(str::to_owned).collect();
        names.iter().try_for_each(|name| self.narrowed(name).map(drop))
    }

    /// The connection of a principal, by the rules of now: the file of rules is looked at first.
    ///
    /// # Errors
    /// [`NotNarrowed`].
    pub fn narrowed(&mut self, principal: &str) -> Result<&mut Narrowed, NotNarrowed> {
        let (rules, has_changed) = self.rules.current();
        if has_changed {
            self.kept.clear();
        }
        let place = self.kept.iter().position(|(name, _)| name == principal);
        let kept = match place {
            Some(place) => self.kept.remove(place),
            None => {
                let entitlement = rules.entitlement(principal).map_err(NotNarrowed::Unfit)?;
                let entitlement = entitlement.ok_or(NotNarrowed::Nothing)?;
                let writes = self.access == Access::ReadWrite && entitlement.writes();
                let (entitlement, access) = match writes {
                    true => (entitlement, Access::ReadWrite),
                    false => (entitlement.read_only(), Access::ReadOnly),
                };
                let environment = self.environment.clone();
                let database =
                    Database::open(environment, &self.path, access).map_err(NotNarrowed::Closed)?;
                let narrowed = database.into_sql().narrowed(entitlement);
                let mut narrowed =
                    narrowed.map_err(|error| NotNarrowed::Unfit(error.to_string()))?;
                narrowed.set_limits(self.limits);
                (principal.to_owned(), narrowed)
            }
        };
        if self.kept.len() >= KEPT_MAX {
            self.kept.remove(0);
        }
        self.kept.push(kept);
        let (_, narrowed) = self.kept.last_mut().expect("a connection was kept right before");
        Ok(narrowed)
    }
}
