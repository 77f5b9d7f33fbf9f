//! Reading as a principal does.

use std::path::{Path, PathBuf};

use clap::Args;

/// The principal of verbs that read.
#[derive(Debug, Default, Args)]
pub(crate) struct AsPrincipal {
    /// Read as this principal does, by the rules of --rules: what they hide is no part of the
    /// output
    #[arg(long = "as", value_name = "NAME", requires = "rules")]
    principal: Option<String>,
    /// The rules of --as, in JSON: docs/entitlements.md has an example
    #[arg(long, value_name = "FILE", requires = "principal")]
    rules: Option<PathBuf>,
}

impl AsPrincipal {
    /// The principal, and the file of rules.
    pub(crate) fn given(&self) -> Option<(&str, &Path)> {
        self.principal.as_deref().zip(self.rules.as_deref())
    }
}
