//! `generate_series`: integers at equal distances.

use crate::Error;
use crate::schema::{MadeRows, Module, ModuleContext, ModuleRows};
use crate::value::{Value, to_int};

#[derive(Debug)]
pub(super) struct GenerateSeries;

/// The end of the series without a second argument.
const STOP: i64 = u32::MAX as i64;

impl Module for GenerateSeries {
    fn name(&self) -> &str {
        "generate_series"
    }

    fn columns(&self) -> Vec<&str> {
        vec!["value"]
    }

    fn arguments(&self) -> &[&str] {
        &["start", "stop", "step"]
    }

    fn default_argument(&self, argument: usize) -> Value {
        match argument {
            1 => Value::Int(STOP),
            2 => Value::Int(1),
            _ => Value::Null,
        }
    }

    fn open(
        &self,
        arguments: &[Option<Value>],
        _context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error> {
        let given = |place: usize| arguments.get(place).and_then(Option::as_ref);
        let (Some(start), stop, step) = (given(0), given(1), given(2)) else {
            let message = "first argument to \"generate_series()\" missing or unusable";
            return Err(Error::runtime(message));
        };
        if [Some(start), stop, step].into_iter().flatten().any(Value::is_null) {
            return Ok(MadeRows::boxed(Vec::new()));
        }
        let int = |value: &Value| to_int(value.as_ref());
        let (start, stop) = (int(start), stop.map_or(STOP, int));
        let step = match step.map_or(1, int) {
            0 => 1,
            step => step,
        };
        let any = if step > 0 { start <= stop } else { start >= stop };
        Ok(Box::new(Series { next: any.then_some(start), stop, step }))
    }
}

/// The integers still to come.
#[derive(Debug)]
struct Series {
    next: Option<i64>,
    stop: i64,
    step: i64,
}

impl ModuleRows for Series {
    fn next(&mut self, row: &mut Vec<Value>, _context: &ModuleContext<'_>) -> Result<bool, Error> {
        let Some(here) = self.next else { return Ok(false) };
        let inside =
            |next: &i64| if self.step > 0 { *next <= self.stop } else { *next >= self.stop };
        self.next = here.checked_add(self.step).filter(inside);
        row.push(Value::Int(here));
        Ok(true)
    }
}
