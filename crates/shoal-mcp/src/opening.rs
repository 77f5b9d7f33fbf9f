//! Opens the database of a server: no other module does.

use shoal::{Access, Database};
use shoal_server::rules::RuleFile;
use shoal_server::{Guard, NotNarrowed, Principals, Ways};

use crate::refusal::Refusal;
use crate::seen::Seen;
use crate::{AnswerLimits, Options};

/// The ways on from refusals, for the model behind a call.
pub(crate) const WAYS: Ways = Ways {
    to_write: "Whoever started it can let it write with shoal mcp --write",
    to_transact: "Several statements between semicolons in one call are one transaction",
};

/// A way to open the database, again after a fault.
pub(crate) struct Opening {
    pub(crate) options: Options,
    pub(crate) guard: Guard,
    /// The rules of callers; `None` shows them the whole database.
    pub(crate) rules: Option<RuleFile>,
}

/// The database, open.
pub(crate) enum Opened {
    /// One connection to everything, with its guard.
    Whole(Box<Database>),
    /// Connections by principal. No connection to everything is open beside them.
    Narrowed(Box<Principals>),
}

impl Opening {
    /// The database with its guard and its bounds; under rules the narrowed connections, each
    /// opened by the first question of its principal.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub(crate) fn open(&self) -> Result<Opened, shoal::Error> {
        let Options { environment, path, is_writable, limits, .. } = &self.options;
        if let Some(rules) = &self.rules {
            let bounds = shoal_sql::Limits { time: Some(limits.time), ..bounds(limits) };
            let (environment, path) = (environment.clone(), path.clone());
            let mut principals = Principals::new(environment, path, rules.clone(), bounds);
            if *is_writable {
                principals = principals.writing();
            }
            return Ok(Opened::Narrowed(Box::new(principals)));
        }
        let access = if *is_writable { Access::ReadWrite } else { Access::ReadOnly };
        let mut database = Database::open(environment.clone(), path, access)?;
        let connection = database.sql();
        connection.set_read_only(!is_writable);
        connection.set_limits(bounds(limits));
        self.guard.watch(connection, *is_writable);
        Ok(Opened::Whole(Box::new(database)))
    }
}

fn bounds(limits: &AnswerLimits) -> shoal_sql::Limits {
    shoal_sql::Limits { memory_bytes: Some(limits.memory_bytes), ..shoal_sql::Limits::default() }
}

impl Opened {
    /// The database in the sight of a caller: under rules the grants of `principal`, and nothing
    /// without a principal.
    ///
    /// # Errors
    /// [`NotNarrowed`], under rules.
    pub(crate) fn seen(&mut self, principal: Option<&str>) -> Result<Seen<'_>, NotNarrowed> {
        match self {
            Opened::Whole(database) => Ok(Seen::Whole(database)),
            Opened::Narrowed(principals) => {
                let principal = principal.ok_or(NotNarrowed::Nothing)?;
                Ok(Seen::Narrowed(principals.narrowed(principal)?))
            }
        }
    }

    /// Opens the database for one principal, or without a principal for every principal of the
    /// rules: rules with a fault are found before the first client asks.
    ///
    /// # Errors
    /// As [`Opened::seen`].
    pub(crate) fn check(&mut self, principal: Option<&str>) -> Result<(), NotNarrowed> {
        match self {
            Opened::Narrowed(principals) if principal.is_none() => principals.check(),
            opened => opened.seen(principal).map(drop),
        }
    }
}

impl From<NotNarrowed> for Refusal {
    fn from(error: NotNarrowed) -> Refusal {
        Refusal::new(error.to_string())
    }
}
