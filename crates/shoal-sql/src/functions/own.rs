//! Functions, aggregates and collations of the program's own, registered with a connection.

use std::fmt;
use std::ops::{BitOr, Deref};
use std::sync::Arc;

use super::{
    AggregateFunction, Arguments, Body as FunctionBody, Function, LookupError, ScalarFunction,
    lookup as built_in,
};
use crate::Error;
use crate::authorize::Authorizer;
use crate::value::{Collation, Value};
use shoal_store::OwnCollation;

/// How many arguments a function of the program's own takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentCount {
    /// As many as this.
    Exactly(usize),
    /// Any number. A function for the exact number of a call goes first.
    Any,
}

impl From<usize> for ArgumentCount {
    fn from(count: usize) -> ArgumentCount {
        ArgumentCount::Exactly(count)
    }
}

/// Properties of a function of the program's own, put together with `|`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionFlags {
    pub(crate) deterministic: bool,
    pub(crate) direct_only: bool,
}

impl FunctionFlags {
    /// None of the others: results may vary, and calls may come from anywhere but indexes and
    /// generated columns.
    pub const NONE: FunctionFlags = FunctionFlags { deterministic: false, direct_only: false };
    /// Equal arguments give equal results for as long as any file holds some: required in indexes
    /// and generated columns.
    pub const DETERMINISTIC: FunctionFlags =
        FunctionFlags { deterministic: true, direct_only: false };
    /// Called by the text of statements alone, never by definitions of a file: views, triggers,
    /// constraints, defaults, indexes. For functions with effects.
    pub const DIRECT_ONLY: FunctionFlags =
        FunctionFlags { deterministic: false, direct_only: true };
}

impl BitOr for FunctionFlags {
    type Output = FunctionFlags;

    fn bitor(self, other: FunctionFlags) -> FunctionFlags {
        FunctionFlags {
            deterministic: self.deterministic | other.deterministic,
            direct_only: self.direct_only | other.direct_only,
        }
    }
}

/// A function of a group of rows, of the program's own
/// ([`Connection::create_aggregate`](crate::Connection::create_aggregate)).
pub trait Aggregate: Send + Sync + 'static {
    /// The rows of a group so far.
    type State: Clone + Send + Sync + 'static;

    /// The state of a group without rows.
    fn start(&self) -> Self::State;

    /// Takes one row's arguments.
    ///
    /// # Errors
    /// The function's own; the statement ends with the error.
    fn step(&self, state: &mut Self::State, arguments: &[Value]) -> Result<(), Error>;

    /// The value of the rows so far. Windows ask after every row, and go on.
    ///
    /// # Errors
    /// The function's own; the statement ends with the error.
    fn value(&self, state: &Self::State) -> Result<Value, Error>;

    /// True where [`Aggregate::undo`] takes rows back. A window's frames then cost a step for each
    /// row entering or leaving; otherwise every frame is gone through as a whole.
    fn is_reversible(&self) -> bool {
        false
    }

    /// Takes back the first of the rows in the state.
    fn undo(&self, _state: &mut Self::State, _arguments: &[Value]) {}
}

/// A function of the program's own with subtypes
/// ([`Connection::create_subtyped_function`](crate::Connection::create_subtyped_function)): numbers
/// from 1 to 255 on texts and blobs, known when a statement is prepared.
///
/// A call of such a function has the subtype of [`SubtypedFunction::result`], a column of a virtual
/// table its [`VirtualColumn::subtype`](crate::VirtualColumn). Parameters, columns of other tables
/// and all other expressions have subtype 0.
pub trait SubtypedFunction: Send + Sync + 'static {
    /// The subtype of the result for arguments with these subtypes.
    fn result(&self, subtypes: &[u8]) -> u8;

    /// The function's value; there are as many subtypes as arguments.
    ///
    /// # Errors
    /// The function's own; the statement ends with the error.
    fn call(&self, arguments: &[Value], subtypes: &[u8]) -> Result<Value, Error>;
}

/// A [`SubtypedFunction`] for arguments of certain subtypes.
#[derive(Clone)]
pub(crate) struct Subtyped {
    pub(crate) name: String,
    function: Arc<dyn SubtypedFunction>,
    subtypes: Arc<[u8]>,
}

impl Subtyped {
    pub(crate) fn result(&self) -> u8 {
        self.function.result(&self.subtypes)
    }

    pub(crate) fn call(&self, arguments: &[Value]) -> Result<Value, Error> {
        match self.subtypes.len() == arguments.len() {
            true => self.function.call(arguments, &self.subtypes),
            false => self.function.call(arguments, &vec![0; arguments.len()]),
        }
    }

    fn is(&self, other: &Subtyped) -> bool {
        Arc::ptr_eq(&self.function, &other.function) && self.subtypes == other.subtypes
    }
}

pub(crate) type Body = Arc<dyn Fn(&[Value]) -> Result<Value, Error> + Send + Sync>;

/// An aggregate with a hidden type of state.
pub(crate) trait AnyAggregate: Send + Sync {
    fn start(&self) -> Box<dyn AnyState>;
    fn is_reversible(&self) -> bool;
}

/// A state of such an aggregate.
pub(crate) trait AnyState: Send + Sync {
    fn step(&mut self, arguments: &[Value]) -> Result<(), Error>;
    fn value(&self) -> Result<Value, Error>;
    fn undo(&mut self, arguments: &[Value]);
    fn boxed(&self) -> Box<dyn AnyState>;
}

impl Clone for Box<dyn AnyState> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

impl fmt::Debug for dyn AnyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("state")
    }
}

struct Typed<A>(Arc<A>);

struct TypedState<A: Aggregate> {
    aggregate: Arc<A>,
    state: A::State,
}

impl<A: Aggregate> AnyAggregate for Typed<A> {
    fn start(&self) -> Box<dyn AnyState> {
        Box::new(TypedState { aggregate: Arc::clone(&self.0), state: self.0.start() })
    }

    fn is_reversible(&self) -> bool {
        self.0.is_reversible()
    }
}

impl<A: Aggregate> AnyState for TypedState<A> {
    fn step(&mut self, arguments: &[Value]) -> Result<(), Error> {
        self.aggregate.step(&mut self.state, arguments)
    }

    fn value(&self) -> Result<Value, Error> {
        self.aggregate.value(&self.state)
    }

    fn undo(&mut self, arguments: &[Value]) {
        self.aggregate.undo(&mut self.state, arguments);
    }

    fn boxed(&self) -> Box<dyn AnyState> {
        Box::new(TypedState { aggregate: Arc::clone(&self.aggregate), state: self.state.clone() })
    }
}

/// A function, built in or the program's own.
pub(crate) enum Shared<T: 'static> {
    BuiltIn(&'static T),
    Own(Arc<T>),
}

/// A scalar function of either kind.
pub(crate) type Scalar = Shared<ScalarFunction>;
/// An aggregate of either kind.
pub(crate) type Aggregation = Shared<AggregateFunction>;

impl<T> Shared<T> {
    /// True for a function of the program's own.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Shared::Own(_))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        match self {
            Shared::BuiltIn(function) => Shared::BuiltIn(function),
            Shared::Own(function) => Shared::Own(Arc::clone(function)),
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Shared::BuiltIn(function) => function,
            Shared::Own(function) => function,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Scalar {
    /// Whether both are the same function.
    pub(crate) fn is(&self, other: &Scalar) -> bool {
        match (self, other) {
            (Shared::BuiltIn(a), Shared::BuiltIn(b)) => a.name() == b.name(),
            (Shared::Own(a), Shared::Own(b)) => match (&a.body, &b.body) {
                (FunctionBody::Subtyped(a), FunctionBody::Subtyped(b)) => a.is(b),
                _ => Arc::ptr_eq(a, b),
            },
            _ => false,
        }
    }

    /// True for a function to be told the subtypes of its arguments.
    pub(crate) fn is_subtyped(&self) -> bool {
        matches!(self.body, FunctionBody::Subtyped(_))
    }

    /// The same function for arguments with these subtypes.
    pub(crate) fn of_subtypes(&self, subtypes: Vec<u8>) -> Scalar {
        let FunctionBody::Subtyped(known) = &self.body else { return self.clone() };
        let subtyped = Subtyped { subtypes: subtypes.into(), ..known.clone() };
        let flags = FunctionFlags { deterministic: self.deterministic, ..FunctionFlags::NONE };
        Shared::Own(Arc::new(ScalarFunction::subtyped(subtyped, self.arguments, flags)))
    }
}

/// A function under its name.
#[derive(Clone, Debug)]
struct Named {
    name: String,
    count: ArgumentCount,
    flags: FunctionFlags,
    function: Function,
}

/// Functions and collations defined on a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    functions: Arc<Vec<Named>>,
    collations: Arc<Vec<OwnCollation>>,
    /// The program's word on statements.
    pub(crate) authorizer: Authorizer,
}

impl Own {
    /// Adds a scalar function, in the place of one of the same name and number of arguments.
    pub(crate) fn add_scalar(
        &mut self,
        name: &str,
        count: ArgumentCount,
        flags: FunctionFlags,
        body: Body,
    ) {
        let function = ScalarFunction::own(name, arguments_of(count), flags, body);
        self.add(name, count, flags, Function::Scalar(Shared::Own(Arc::new(function))));
    }

    /// Adds a scalar function with subtypes, in the place of one of the same name and number of
    /// arguments.
    pub(crate) fn add_subtyped(
        &mut self,
        name: &str,
        count: ArgumentCount,
        flags: FunctionFlags,
        function: Arc<dyn SubtypedFunction>,
    ) {
        let subtypes = match count {
            ArgumentCount::Exactly(count) => vec![0; count],
            ArgumentCount::Any => Vec::new(),
        };
        let subtyped = Subtyped { name: name.to_owned(), function, subtypes: subtypes.into() };
        let function = ScalarFunction::subtyped(subtyped, arguments_of(count), flags);
        self.add(name, count, flags, Function::Scalar(Shared::Own(Arc::new(function))));
    }

    /// Adds an aggregate, in the place of one of the same name and number of arguments.
    pub(crate) fn add_aggregate<A: Aggregate>(
        &mut self,
        name: &str,
        count: ArgumentCount,
        flags: FunctionFlags,
        aggregate: A,
    ) {
        let any = Box::new(Typed(Arc::new(aggregate)));
        let function = AggregateFunction::own(name, arguments_of(count), any);
        self.add(name, count, flags, Function::Aggregate(Shared::Own(Arc::new(function))));
    }

    fn add(&mut self, name: &str, count: ArgumentCount, flags: FunctionFlags, function: Function) {
        self.remove(name, count);
        let named = Named { name: name.to_owned(), count, flags, function };
        Arc::make_mut(&mut self.functions).push(named);
    }

    /// Removes the function of a name and number of arguments; false without one.
    pub(crate) fn remove(&mut self, name: &str, count: ArgumentCount) -> bool {
        let is = |it: &Named| it.name.eq_ignore_ascii_case(name) && it.count == count;
        let place = self.functions.iter().position(is);
        place.map(|place| Arc::make_mut(&mut self.functions).remove(place)).is_some()
    }

    /// Adds a collation, in the place of one of the same name.
    pub(crate) fn add_collation(&mut self, collation: OwnCollation) {
        self.remove_collation(collation.name());
        Arc::make_mut(&mut self.collations).push(collation);
    }

    /// Removes a collation; false without one of the name.
    pub(crate) fn remove_collation(&mut self, name: &str) -> bool {
        let is = |it: &OwnCollation| it.name().eq_ignore_ascii_case(name);
        let place = self.collations.iter().position(is);
        place.map(|place| Arc::make_mut(&mut self.collations).remove(place)).is_some()
    }

    /// The same collations, without functions and authorizer.
    pub(crate) fn without_functions(&self) -> Own {
        Own { collations: Arc::clone(&self.collations), ..Own::default() }
    }

    pub(crate) fn collations(&self) -> &Arc<Vec<OwnCollation>> {
        &self.collations
    }

    /// The collation of a name, in any case: the program's own before the built-in ones.
    pub(crate) fn collation(&self, name: &str) -> Option<Collation> {
        let own = self.collations.iter().find(|it| it.name().eq_ignore_ascii_case(name));
        own.map(|own| Collation::Own(*own)).or_else(|| Collation::named(name))
    }

    /// Puts the program's own collation into the place of an unknown one, or of a built-in one of
    /// the same name.
    pub(crate) fn adopt(&self, collation: &mut Result<Collation, String>) {
        if self.collations.is_empty() {
            return;
        }
        let name = match collation {
            Ok(known) => known.name(),
            Err(unknown) => unknown.as_str(),
        };
        if let Some(known) = self.collation(name)
            && matches!(known, Collation::Own(_))
        {
            *collation = Ok(known);
        }
    }

    /// Finds the function of a call with so many arguments: the program's own for the exact number,
    /// for any number, or a built-in one. True with a function for direct calls alone.
    pub(crate) fn lookup(&self, name: &str, count: usize) -> Result<(Function, bool), LookupError> {
        let named = |it: &&Named| it.name.eq_ignore_ascii_case(name);
        let takes = |wanted: ArgumentCount| {
            self.functions.iter().filter(named).find(move |it| it.count == wanted)
        };
        let exactly = takes(ArgumentCount::Exactly(count));
        if let Some(found) = exactly.or_else(|| takes(ArgumentCount::Any)) {
            return Ok((found.function.clone(), found.flags.direct_only));
        }
        match built_in(name, count) {
            Err(LookupError::Unknown(_) | LookupError::Unsupported(_))
                if self.functions.iter().any(|it| named(&it)) =>
            {
                Err(LookupError::ArgumentCount(name.to_owned()))
            }
            found => found.map(|function| (function, false)),
        }
    }

    /// Whether an aggregate of the program's own has the name, for whatever arguments.
    pub(crate) fn is_aggregate(&self, name: &str) -> bool {
        self.functions.iter().any(|it| {
            it.name.eq_ignore_ascii_case(name) && matches!(it.function, Function::Aggregate(_))
        })
    }

    /// The functions: name, `s`calar or `w`indow function, number of arguments or -1, properties.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&str, &'static str, i64, FunctionFlags)> {
        self.functions.iter().map(|it| {
            let kind = match it.function {
                Function::Scalar(_) => "s",
                Function::Aggregate(_) => "w",
            };
            let count = match it.count {
                ArgumentCount::Any => -1,
                ArgumentCount::Exactly(count) => i64::try_from(count).unwrap_or(i64::MAX),
            };
            (it.name.as_str(), kind, count, it.flags)
        })
    }
}

fn arguments_of(count: ArgumentCount) -> Arguments {
    match count {
        ArgumentCount::Exactly(count) => Arguments::exactly(count),
        ArgumentCount::Any => Arguments::at_least(0),
    }
}
