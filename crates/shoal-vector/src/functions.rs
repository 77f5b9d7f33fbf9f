//! The functions: sqlite-vec's `vec_...`, the functions of pgvector's operators, and `vec_each`.

use std::borrow::Cow;

use shoal_sql::{Connection, Error, FunctionFlags, SubtypedFunction, TableFunction, Value};

use crate::distance::{self, Metric, distance, floats_of, norm};
use crate::half::float_to_half;
use crate::vector::{Element, Vector, VectorError};

/// The version of sqlite-vec whose functions and files these are.
pub(crate) const VERSION: (&str, i64, i64, i64) = ("v0.1.9", 0, 1, 9);

/// The subtype of JSON.
const JSON: u8 = b'J';

/// A function as a pair of plain ones.
struct Typed {
    result: Subtype,
    call: Call,
}

impl SubtypedFunction for Typed {
    fn result(&self, subtypes: &[u8]) -> u8 {
        (self.result)(subtypes)
    }

    fn call(&self, arguments: &[Value], subtypes: &[u8]) -> Result<Value, Error> {
        (self.call)(arguments, subtypes)
    }
}

/// The vector of an argument.
fn vector<'v>(values: &'v [Value], kinds: &[u8], place: usize) -> Result<Vector<'v>, VectorError> {
    Vector::read(&values[place], Element::of_subtype(kinds[place]))
}

/// The vectors of the first two arguments, told apart in errors.
fn two<'v>(values: &'v [Value], kinds: &[u8]) -> Result<(Vector<'v>, Vector<'v>), Error> {
    let read = |place: usize, name: &str| {
        vector(values, kinds, place)
            .map_err(|error| Error::of_function(format!("Error reading {name} vector: {error}")))
    };
    Ok((read(0, "1st")?, read(1, "2nd")?))
}

fn blob(vector: Vector<'_>) -> Value {
    Value::Blob(vector.bytes.into_owned())
}

fn none(_: &[u8]) -> u8 {
    0
}

/// The subtype of a result with the elements of the first argument.
fn same(subtypes: &[u8]) -> u8 {
    Element::of_subtype(subtypes.first().copied().unwrap_or(0)).subtype()
}

fn f32_result(_: &[u8]) -> u8 {
    Element::F32.subtype()
}

fn int8_result(_: &[u8]) -> u8 {
    Element::Int8.subtype()
}

fn bit_result(_: &[u8]) -> u8 {
    Element::Bit.subtype()
}

fn distance_of(metric: Metric, values: &[Value], kinds: &[u8]) -> Result<Value, Error> {
    let (a, b) = two(values, kinds)?;
    let distance = distance(metric, &a, &b)?;
    // Absolute differences of whole numbers are one.
    Ok(match (metric, a.element) {
        (Metric::L1, Element::Int8) => Value::Int(distance as i64),
        _ => distance::value(distance),
    })
}

/// Two vectors combined element by element.
fn combined(
    values: &[Value],
    kinds: &[u8],
    refused: &'static str,
    floats: fn(f32, f32) -> f32,
    bytes: fn(u8, u8) -> u8,
) -> Result<Value, Error> {
    let (a, b) = two(values, kinds)?;
    if a.element != b.element {
        return Err(VectorError::Types(a.element.name(), b.element.name()).into());
    }
    if a.dimensions != b.dimensions {
        return Err(VectorError::Dimensions(a.dimensions, b.dimensions).into());
    }
    Ok(Value::Blob(match a.element {
        Element::Bit => return Err(VectorError::Refused(refused).into()),
        Element::Int8 => a.bytes.iter().zip(b.bytes.iter()).map(|(a, b)| bytes(*a, *b)).collect(),
        element => {
            let sums: Vec<f32> =
                a.floats().into_iter().zip(b.floats()).map(|(a, b)| floats(a, b)).collect();
            of_floats(element, &sums)
        }
    }))
}

/// The bytes of floats or half floats.
fn of_floats(element: Element, floats: &[f32]) -> Vec<u8> {
    match element {
        Element::F16 => floats.iter().flat_map(|it| float_to_half(*it).to_le_bytes()).collect(),
        _ => Vector::of_floats(floats).bytes.into_owned(),
    }
}

fn vec_f32(values: &[Value], kinds: &[u8]) -> Result<Value, Error> {
    let known = Element::of_subtype(kinds[0]);
    if known == Element::F16 {
        let vector = Vector::read(&values[0], known)?;
        return Ok(blob(Vector::of_floats(&vector.floats())));
    }
    Ok(blob(Vector::read(&values[0], Element::F32)?))
}

fn vec_f16(values: &[Value], kinds: &[u8]) -> Result<Value, Error> {
    // A blob without a subtype is taken for half floats already.
    if kinds[0] == Element::F32.subtype() {
        let vector = Vector::read(&values[0], Element::F32)?;
        return Ok(Value::Blob(of_floats(Element::F16, &vector.floats())));
    }
    Ok(blob(Vector::read(&values[0], Element::F16)?))
}

fn vec_quantize_binary(values: &[Value], kinds: &[u8]) -> Result<Value, Error> {
    let vector = vector(values, kinds, 0)?;
    if vector.element == Element::Bit {
        let refused = "Can only binary quantize float or int8 vectors";
        return Err(VectorError::Refused(refused).into());
    }
    if !vector.dimensions.is_multiple_of(8) {
        let refused = "Binary quantization requires vectors with a length divisible by 8";
        return Err(VectorError::Refused(refused).into());
    }
    Ok(Value::Blob(binary(&floats_of(&vector))))
}

/// One bit for each number: set above zero.
pub(crate) fn binary(floats: &[f32]) -> Vec<u8> {
    let byte = |eight: &[f32]| {
        let bits = eight.iter().enumerate();
        bits.fold(0, |byte, (bit, float)| byte | u8::from(*float > 0.0) << bit)
    };
    floats.chunks(8).map(byte).collect()
}

fn vec_quantize_int8(values: &[Value], kinds: &[u8]) -> Result<Value, Error> {
    let element = match Element::of_subtype(kinds[0]) {
        Element::F16 => Element::F16,
        _ => Element::F32,
    };
    let vector = Vector::read(&values[0], element)?;
    if !matches!(&values[1], Value::Text(word) if word.eq_ignore_ascii_case(b"unit")) {
        let refused = "2nd argument to vec_quantize_int8() must be 'unit'.";
        return Err(VectorError::Refused(refused).into());
    }
    let step = f64::from((2.0_f64 / 255.0) as f32);
    let byte = |float: f32| {
        let number = (f64::from(float) + 1.0) / step - 128.0;
        // NaN goes where the largest numbers go.
        let number = if number.is_nan() { 127.0 } else { number.clamp(-128.0, 127.0) };
        (number as i8).cast_unsigned()
    };
    Ok(Value::Blob(vector.floats().into_iter().map(byte).collect()))
}

fn vec_slice(values: &[Value], kinds: &[u8]) -> Result<Value, Error> {
    let vector = vector(values, kinds, 0)?;
    let refused = |why: &'static str| Error::from(VectorError::Refused(why));
    let index = |value: &Value, negative, above| match usize::try_from(value.to_int()) {
        Ok(index) if index <= vector.dimensions => Ok(index),
        Ok(_) => Err(refused(above)),
        Err(_) => Err(refused(negative)),
    };
    let start = index(
        &values[1],
        "slice 'start' index must be a postive number.",
        "slice 'start' index is greater than the number of dimensions",
    )?;
    let end = index(
        &values[2],
        "slice 'end' index must be a postive number.",
        "slice 'end' index is greater than the number of dimensions",
    )?;
    if start > end {
        return Err(refused("slice 'start' index is greater than 'end' index"));
    }
    if start == end {
        return Err(refused(
            "slice 'start' index is equal to the 'end' index, vectors must have non-zero length",
        ));
    }
    if vector.element == Element::Bit {
        if !start.is_multiple_of(8) {
            return Err(refused("start index must be divisible by 8."));
        }
        if !end.is_multiple_of(8) {
            return Err(refused("end index must be divisible by 8."));
        }
    }
    let (start, end) = (vector.element.bytes(start), vector.element.bytes(end));
    Ok(Value::Blob(vector.bytes[start..end].to_vec()))
}

fn vec_normalize(values: &[Value], kinds: &[u8]) -> Result<Value, Error> {
    let vector = vector(values, kinds, 0)?;
    if !matches!(vector.element, Element::F32 | Element::F16) {
        let refused = "only float32 vectors are supported when normalizing";
        return Err(VectorError::Refused(refused).into());
    }
    let mut floats = vector.floats();
    let norm = norm(&vector) as f32;
    // A zero vector has no direction, and stays.
    if norm != 0.0 {
        floats.iter_mut().for_each(|float| *float /= norm);
    }
    Ok(Value::Blob(of_floats(vector.element, &floats)))
}

type Call = fn(&[Value], &[u8]) -> Result<Value, Error>;

/// The subtype of a function's result, by the subtypes of the arguments.
type Subtype = fn(&[u8]) -> u8;

/// Name, number of arguments, the subtype of the result, the function.
const FUNCTIONS: &[(&str, usize, Subtype, Call)] = &[
    ("vec_version", 0, none, |_, _| Ok(Value::text(VERSION.0))),
    ("vec_debug", 0, none, |_, _| {
        Ok(Value::text(format!("Version: {}\nKernel: {}\n", VERSION.0, crate::Isa::detect())))
    }),
    ("vec_f32", 1, f32_result, vec_f32),
    ("vec_f16", 1, |_| Element::F16.subtype(), vec_f16),
    ("vec_int8", 1, int8_result, |values, _| Ok(blob(Vector::read(&values[0], Element::Int8)?))),
    ("vec_bit", 1, bit_result, |values, _| Ok(blob(Vector::read(&values[0], Element::Bit)?))),
    ("vec_length", 1, none, |values, kinds| {
        Ok((vector(values, kinds, 0)?.dimensions as i64).into())
    }),
    ("vec_type", 1, none, |values, kinds| {
        Ok(Value::text(vector(values, kinds, 0)?.element.name()))
    }),
    (
        "vec_to_json",
        1,
        |_| JSON,
        |values, kinds| Ok(Value::text(vector(values, kinds, 0)?.to_json())),
    ),
    ("vec_add", 2, same, |values, kinds| {
        let refused = "Cannot add two bitvectors together.";
        combined(values, kinds, refused, |a, b| a + b, u8::wrapping_add)
    }),
    ("vec_sub", 2, same, |values, kinds| {
        let refused = "Cannot subtract two bitvectors together.";
        combined(values, kinds, refused, |a, b| a - b, u8::wrapping_sub)
    }),
    ("vec_slice", 3, same, vec_slice),
    ("vec_normalize", 1, same, vec_normalize),
    ("vec_quantize_binary", 1, bit_result, vec_quantize_binary),
    ("vec_quantize_int8", 2, int8_result, vec_quantize_int8),
    ("vec_distance_l2", 2, none, |values, kinds| distance_of(Metric::L2, values, kinds)),
    ("vec_distance_l1", 2, none, |values, kinds| distance_of(Metric::L1, values, kinds)),
    ("vec_distance_cosine", 2, none, |values, kinds| distance_of(Metric::Cosine, values, kinds)),
    ("vec_distance_hamming", 2, none, |values, kinds| distance_of(Metric::Hamming, values, kinds)),
    // pgvector's `<->`, `<+>`, `<=>`, `<#>`, `<~>`, `<%>` and their relatives.
    ("l2_distance", 2, none, |values, kinds| distance_of(Metric::L2, values, kinds)),
    ("l1_distance", 2, none, |values, kinds| distance_of(Metric::L1, values, kinds)),
    ("cosine_distance", 2, none, |values, kinds| distance_of(Metric::Cosine, values, kinds)),
    ("inner_product", 2, none, |values, kinds| distance_of(Metric::Product, values, kinds)),
    ("vector_negative_inner_product", 2, none, |values, kinds| {
        let (a, b) = two(values, kinds)?;
        Ok(distance::value(-distance(Metric::Product, &a, &b)?))
    }),
    ("hamming_distance", 2, none, |values, kinds| distance_of(Metric::Hamming, values, kinds)),
    ("jaccard_distance", 2, none, |values, kinds| distance_of(Metric::Jaccard, values, kinds)),
    ("vector_dims", 1, none, |values, kinds| {
        Ok((vector(values, kinds, 0)?.dimensions as i64).into())
    }),
    ("vector_norm", 1, none, |values, kinds| Ok(norm(&vector(values, kinds, 0)?).into())),
    ("l2_normalize", 1, same, vec_normalize),
    ("binary_quantize", 1, bit_result, vec_quantize_binary),
];

/// Makes the functions known to a connection.
///
/// # Errors
/// None but a name refused by the connection.
pub(crate) fn register(connection: &mut Connection) -> Result<(), Error> {
    for (name, arguments, result, call) in FUNCTIONS {
        let function = Typed { result: *result, call: *call };
        let flags = FunctionFlags::DETERMINISTIC;
        connection.create_subtyped_function(name, *arguments, flags, function)?;
    }
    let each = TableFunction::new("vec_each", &["value"], &["vector"], |given, _| {
        let Some(value) = &given[0] else {
            return Err(Error::of_function("vec_each() wants a vector"));
        };
        let vector = Vector::read(value, Element::F32)?;
        let owned = Vector { bytes: Cow::Owned(vector.bytes.into_owned()), ..vector };
        Ok((0..owned.dimensions).map(move |place| Ok(vec![distance::value(owned.float(place))])))
    });
    connection.create_table_function(each)
}
