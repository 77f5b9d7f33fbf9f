//! The last argument of each procedure: a map of options, every key known.

use super::snapshot::{Direction, Selection};
use crate::error::{Error, Result};
use crate::value::{Map, Value};

/// Options of every procedure.
const COMMON: [&str; 3] = ["label", "type", "direction"];

/// A procedure's options as given.
pub(super) struct Options<'v> {
    map: Option<&'v Map>,
    direction: Direction,
    label: Option<&'v str>,
    kinds: Vec<&'v str>,
}

impl<'v> Options<'v> {
    /// Reads the options of a procedure with some of its own.
    ///
    /// # Errors
    /// A key that the procedure does not have; a value of a wrong type.
    pub(super) fn read(
        name: &str,
        own: &[&'static str],
        value: Option<&'v Value>,
    ) -> Result<Options<'v>> {
        let map = match value {
            None | Some(Value::Null) => None,
            Some(Value::Map(map)) => Some(&**map),
            Some(other) => {
                let message = format!("options are a map, not {}", other.type_name());
                return Err(Error::value_type(message));
            }
        };
        let known = || COMMON.iter().chain(own);
        if let Some(key) =
            map.into_iter().flat_map(Map::keys).find(|key| !known().any(|known| **known == ***key))
        {
            let known: Vec<&str> = known().copied().collect();
            let message = format!("{name} has no option {key}; it has {}", known.join(", "));
            return Err(Error::argument(message));
        }
        let mut options =
            Options { map, direction: Direction::Outgoing, label: None, kinds: Vec::new() };
        options.label = options.text("label")?;
        options.kinds.extend(options.text("type")?);
        options.direction = match options.text("direction")? {
            None | Some("out") => Direction::Outgoing,
            Some("in") => Direction::Incoming,
            Some("both") => Direction::Both,
            Some(other) => {
                let message = format!("a direction is 'out', 'in' or 'both', not '{other}'");
                return Err(Error::argument(message));
            }
        };
        Ok(options)
    }

    /// The part of the graph that is asked for.
    pub(super) fn selection<'s>(&'s self, weight: Option<&'s str>) -> Selection<'s> {
        let Options { direction, label, kinds, .. } = self;
        Selection { label: *label, kinds, direction: *direction, weight }
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// The number of rounds of an algorithm that repeats.
    pub(super) fn rounds(&self, default: u64) -> Result<u64> {
        match self.get("rounds") {
            None => Ok(default),
            Some(Value::Integer(number)) => u64::try_from(*number)
                .map_err(|_| Error::argument(format!("rounds are not negative, as {number} is"))),
            Some(other) => {
                Err(Error::value_type(format!("rounds are an integer, not {}", other.type_name())))
            }
        }
    }

    /// A number.
    pub(super) fn number(&self, key: &str, default: f64) -> Result<f64> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Integer(number)) => Ok(*number as f64),
            Some(Value::Float(number)) => Ok(*number),
            Some(other) => {
                Err(Error::value_type(format!("{key} is a number, not {}", other.type_name())))
            }
        }
    }

    /// A number from 0 on.
    pub(super) fn positive(&self, key: &str, default: f64) -> Result<f64> {
        let number = self.number(key, default)?;
        match number.is_finite() && number >= 0.0 {
            true => Ok(number),
            false => Err(Error::argument(format!("{key} is a number from 0 on, not {number}"))),
        }
    }

    /// The damping of PageRank.
    pub(super) fn damping(&self, default: f64) -> Result<f64> {
        let damping = self.number("damping", default)?;
        match (0.0..=1.0).contains(&damping) {
            true => Ok(damping),
            false => {
                Err(Error::argument(format!("damping lies between 0 and 1, as {damping} does not")))
            }
        }
    }

    /// The value of an option; null is an option left out.
    fn get(&self, key: &str) -> Option<&'v Value> {
        self.map?.get(key).filter(|value| !value.is_null())
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'v str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(&**text)),
            Some(other) => {
                Err(Error::value_type(format!("{key} is a string, not {}", other.type_name())))
            }
        }
    }
}
