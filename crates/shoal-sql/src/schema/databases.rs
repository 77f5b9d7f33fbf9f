//! The databases of a connection: `main`, `temp`, and the attached ones.
//!
//! The schema of `main` holds the schemas beside, so that name resolution has all of them in one
//! value. Databases have SQLite's numbers: 0 is `main`, 1 is `temp`, the others follow in the order
//! of their `ATTACH`. Until a temporary object is made, `temp` has nothing but
//! `sqlite_temp_schema` and the objects registered by the program.

use std::sync::Arc;

use super::{Module, Modules, Object, Schema, Trigger, View};
use crate::parse::ast::{ObjectName, Stmt};
use crate::parse::parse;

/// The number of `main`.
pub(crate) const MAIN: usize = 0;
/// The number of `temp`.
pub(crate) const TEMP: usize = 1;
/// The number of the first database beside `main`: a connection's places count from here.
pub(crate) const BESIDE: usize = 1;
/// The number of the first attached database.
const FIRST_ATTACHED: usize = 2;

/// A database beside `main`.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    /// The name given by `ATTACH`.
    pub(crate) name: String,
    pub(crate) schema: Arc<Schema>,
}

/// Objects a program registered with a connection, in no file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registered {
    pub(crate) views: Vec<Object>,
    pub(crate) modules: Vec<Arc<dyn Module>>,
}

impl Registered {
    pub(crate) fn is_empty(&self) -> bool {
        self.views.is_empty() && self.modules.is_empty()
    }
}

impl Schema {
    /// This schema, of `main`, with others beside and with registered objects.
    pub(crate) fn with_others(
        &self,
        attached: Vec<Beside>,
        temporary: Option<Arc<Schema>>,
        registered: Registered,
    ) -> Schema {
        Schema {
            cookie: self.cookie,
            utf16: self.utf16,
            file: self.file.clone(),
            settings: self.settings,
            flags: self.flags,
            objects: self.objects.clone(),
            by_name: self.by_name.clone(),
            attached,
            temporary,
            far_triggers: self.far_triggers.clone(),
            registered,
            own: self.own.clone(),
            modules: self.modules.clone(),
            table_modules: self.table_modules.clone(),
            for_nested_writes: self.for_nested_writes,
            narrowing: self.narrowing.clone(),
            temp: std::sync::OnceLock::new(),
        }
    }

    /// The schema of all databases with `main` and `temp` as an `ALTER TABLE` left them.
    pub(crate) fn with_changed(&self, main: &Schema, temporary: Schema) -> Schema {
        let (attached, registered) = (self.attached.clone(), self.registered.clone());
        main.with_others(attached, Some(Arc::new(temporary)), registered)
    }

    /// The same schema with these modules built in.
    pub(crate) fn with_modules(self, modules: Modules) -> Schema {
        Schema { modules, ..self }
    }

    /// The registered table called `name`, in any case.
    pub(crate) fn registered_table(&self, name: &str) -> Option<&Arc<dyn Module>> {
        self.module(name).filter(|module| module.is_table())
    }

    /// The table-valued function or registered table called `name`, in any case: registered modules
    /// hide built-in ones.
    pub(crate) fn module(&self, name: &str) -> Option<&Arc<dyn Module>> {
        let mut registered = self.registered.modules.iter();
        let found = registered.find(|module| module.name().eq_ignore_ascii_case(name));
        found.or_else(|| self.modules.named(name))
    }

    /// The same schema without the registered module called `name`, and without modules registered
    /// later.
    pub(crate) fn before_module(&self, name: &str) -> Schema {
        let views = self.registered.views.clone();
        let is_other = |module: &&Arc<dyn Module>| !module.name().eq_ignore_ascii_case(name);
        let modules = self.registered.modules.iter().take_while(is_other).cloned().collect();
        let temporary = self.temporary.clone();
        self.with_others(self.attached.clone(), temporary, Registered { views, modules })
    }

    /// The number of the database called `name`, in any case.
    pub(crate) fn database(&self, name: &str) -> Option<usize> {
        if name.eq_ignore_ascii_case("main") {
            return Some(MAIN);
        }
        if name.eq_ignore_ascii_case("temp") {
            return Some(TEMP);
        }
        let is = |beside: &Beside| beside.name.eq_ignore_ascii_case(name);
        self.attached.iter().position(is).map(|place| place + FIRST_ATTACHED)
    }

    /// The name of a database by its number; `main` for unused numbers.
    pub(crate) fn database_name(&self, database: usize) -> &str {
        let known = database.checked_sub(FIRST_ATTACHED).and_then(|place| self.attached.get(place));
        match (database, known) {
            (TEMP, _) => "temp",
            (_, Some(beside)) => &beside.name,
            _ => "main",
        }
    }

    /// The schema of a database by its number; `None` for unused numbers and an empty `temp`.
    pub(crate) fn of_database(&self, database: usize) -> Option<&Schema> {
        match database {
            MAIN => Some(self),
            TEMP => self.temporary.as_deref(),
            other => self.attached.get(other - FIRST_ATTACHED).map(|beside| &*beside.schema),
        }
    }

    /// Every database but an empty `temp`, with its number, name and schema.
    pub(crate) fn databases(&self) -> impl Iterator<Item = (usize, &str, &Schema)> {
        let others = self.attached.iter().enumerate();
        let others = others
            .map(|(place, beside)| (place + FIRST_ATTACHED, beside.name.as_str(), &*beside.schema));
        let temporary = self.temporary.iter().map(|schema| (TEMP, "temp", &**schema));
        std::iter::once((MAIN, "main", self)).chain(temporary).chain(others)
    }

    /// The trigger called `name`, in any case, in a database, on any table.
    pub(crate) fn kept_trigger(&self, name: &str) -> Option<&Arc<Trigger>> {
        let is = |trigger: &&Arc<Trigger>| trigger.name.eq_ignore_ascii_case(name);
        let own = self.trigger(name).map(|(_, trigger)| trigger);
        own.or_else(|| self.far_triggers.iter().find(is))
    }

    /// The triggers of a database on tables and views of other databases: none but in `temp`.
    pub(crate) fn far_triggers(&self) -> &[Arc<Trigger>] {
        &self.far_triggers
    }

    /// `temp`'s triggers on a table or view of another database, in the order of firing: the oldest
    /// first. A definition without a database means the first database with the name, as a
    /// statement does.
    pub(crate) fn temporary_triggers(
        &self,
        database: usize,
        name: &str,
    ) -> impl Iterator<Item = &Arc<Trigger>> {
        let all = self.temporary.iter().flat_map(|temporary| temporary.far_triggers.iter());
        all.filter(move |trigger| {
            let on = &trigger.definition.table;
            let is_here = || self.find_named(on).is_some_and(|(found, _)| found == database);
            on.name.is(name) && database != TEMP && is_here()
        })
    }

    /// The table or view meant by `name` or `database.name`, as [`Schema::find`]; `None` for an
    /// unknown database, too.
    pub(crate) fn find_named(&self, name: &ObjectName) -> Option<(usize, &Object)> {
        let database = match &name.database {
            Some(database) => Some(self.database(&database.text)?),
            None => None,
        };
        self.find(database, &name.name.text)
    }

    /// The table or view called `name` in one database, or else in the first database with one:
    /// `temp`, `main`, and the others in the order of their `ATTACH`.
    pub(crate) fn find(&self, database: Option<usize>, name: &str) -> Option<(usize, &Object)> {
        let in_temp = |name: &str| {
            let own = ["sqlite_temp_schema", "sqlite_temp_master"];
            let any = ["sqlite_schema", "sqlite_master"];
            let is = |known: &&str| name.eq_ignore_ascii_case(known);
            let is_named = |view: &&Object| view.name().eq_ignore_ascii_case(name);
            if let Some(view) = self.registered.views.iter().find(is_named) {
                return Some((TEMP, view));
            }
            let found = own.iter().any(is) || database == Some(TEMP) && any.iter().any(is);
            match &self.temporary {
                Some(schema) if found => Some((TEMP, schema.object("sqlite_schema")?)),
                // Without a database, the schema's own name means `main`.
                Some(_) if database.is_none() && any.iter().any(is) => None,
                Some(schema) => Some((TEMP, schema.object(name)?)),
                None => found.then(|| (TEMP, self.temp.get_or_init(temp_schema))),
            }
        };
        match database {
            Some(TEMP) => in_temp(name),
            Some(number) => Some((number, self.of_database(number)?.object(name)?)),
            None => in_temp(name).or_else(|| {
                let mut all = self.databases();
                all.find_map(|(number, _, schema)| Some((number, schema.object(name)?)))
            }),
        }
    }
}

/// `sqlite_temp_schema` of a `temp` without objects.
fn temp_schema() -> Object {
    const NAME: &str = "sqlite_temp_schema";
    let sql = "CREATE VIEW x AS SELECT NULL AS type, NULL AS name, NULL AS tbl_name, \
               NULL AS rootpage, NULL AS sql WHERE 0";
    match parse(sql).map(|parsed| parsed.stmt) {
        Ok(Stmt::CreateView(def)) => Object::View(Arc::new(View {
            name: NAME.to_owned(),
            columns: None,
            select: def.select,
            triggers: super::Triggers::default(),
            is_listed: true,
        })),
        _ => Object::Damaged { name: NAME.to_owned(), why: "it cannot be parsed".to_owned() },
    }
}
