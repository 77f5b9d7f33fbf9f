//! The modules of a connection's virtual tables, and their writers at the ends of statements and
//! transactions.

use std::sync::Arc;

use shoal_store::Transaction;

use super::Connection;
use super::statement::Compiled;
use crate::Error;
use crate::plan::Program;
use crate::schema::{MAIN, Object, Parts, TableModule, TableModules, VirtualWriters};

impl Connection {
    /// Makes a module known: virtual tables of the file that name the module are opened by it, and
    /// `CREATE VIRTUAL TABLE ... USING` makes more of them. It takes the place of a module of the
    /// same name.
    pub fn register_table_module(&mut self, module: Arc<dyn TableModule>) {
        let known = self.schemas.table_modules.0.iter();
        let others = known.filter(|known| !known.name().eq_ignore_ascii_case(module.name()));
        let modules: Arc<[_]> = others.cloned().chain([Arc::clone(&module)]).collect();
        self.schemas.table_modules = TableModules(modules);
        self.schemas.forget();
    }

    /// Flushes the writers before a statement: all for a query of shadow tables or of virtual
    /// tables whose rows may be in memory, none for other queries, and for a write those of other
    /// databases, as the write flushes its own.
    pub(super) fn flush_virtual_but(&mut self, compiled: &Compiled) -> Result<(), Error> {
        match compiled {
            Compiled::Query(program) if !program.reads_pending && !self.reads_shadow(program) => {
                Ok(())
            }
            Compiled::Write(plan) => {
                let home = plan.home();
                let others = self.virtual_writers.databases().into_iter();
                let others = others.filter(|database| *database != home);
                self.with_virtual_writers(others.collect(), VirtualWriters::flush).map(drop)
            }
            _ => self.flush_virtual(),
        }
    }

    /// True for a query reading, of a database with writers, a shadow table of `main` or any table
    /// of an attached file.
    fn reads_shadow(&mut self, program: &Program) -> bool {
        let databases = self.virtual_writers.databases();
        let is_written = |database: &usize| databases.contains(database);
        if program.trees.iter().any(|(database, _)| *database != MAIN && is_written(database)) {
            return true;
        }
        if !is_written(&MAIN) {
            return false;
        }
        let Some(schema) = self.schemas.whole() else { return true };
        let is_read = |root| program.trees.contains(&(MAIN, root));
        schema.objects().iter().any(|object| match object {
            Object::Table(table) => {
                is_read(table.root) && schema.shadow_owner(table.name()).is_some()
            }
            _ => false,
        })
    }

    /// Flushes the writers of all databases.
    pub(super) fn flush_virtual(&mut self) -> Result<(), Error> {
        let databases = self.virtual_writers.databases();
        self.with_virtual_writers(databases, VirtualWriters::flush).map(drop)
    }

    /// The moments of the writers.
    pub(super) fn virtual_moments(&mut self) -> Result<Vec<usize>, Error> {
        let databases = self.virtual_writers.databases();
        let each = self.with_virtual_writers(databases, VirtualWriters::savepoint)?;
        let mut moments: Vec<usize> = Vec::new();
        for found in each {
            moments.resize(moments.len().max(found.len()), 0);
            for (known, moment) in moments.iter_mut().zip(found) {
                *known = moment.max(*known);
            }
        }
        Ok(moments)
    }

    /// Does some work with the writers of each of some databases, in its transaction.
    fn with_virtual_writers<T>(
        &mut self,
        databases: Vec<usize>,
        work: impl Fn(&mut VirtualWriters, &Parts<'_>, &mut Transaction) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut done = Vec::with_capacity(databases.len());
        for database in databases {
            let Some(schema) = self.schemas.whole().cloned() else { continue };
            let Some(mut transaction) = self.take_open(database) else { continue };
            let session = self.environment.session(self.counts, &self.control, &self.store);
            let parts = Parts {
                schema: &schema,
                home: database,
                main: self.transaction.as_ref(),
                attached: &[],
                session: &session,
            };
            let worked = work(&mut self.virtual_writers, &parts, &mut transaction);
            self.put_back(database, transaction);
            self.states.changed(database);
            done.push(worked?);
        }
        Ok(done)
    }
}
