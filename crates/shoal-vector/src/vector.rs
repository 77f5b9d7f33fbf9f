//! Vectors as SQL has them: blobs with a kind of element, or JSON arrays of numbers.

use std::borrow::Cow;

use shoal_sql::{Error, Value};

use crate::half::{float_to_half, half_to_float};

/// The most elements of a vector.
pub const DIMENSIONS_MAX: usize = 65_536;

/// The kind of a vector's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// Floats of 32 bits, little-endian.
    F32,
    /// Floats of 16 bits, little-endian.
    F16,
    /// Signed bytes.
    Int8,
    /// Bits, eight to a byte, the lowest first.
    Bit,
}

impl Element {
    /// The name given by `vec_type`.
    pub const fn name(self) -> &'static str {
        match self {
            Element::F32 => "float32",
            Element::F16 => "float16",
            Element::Int8 => "int8",
            Element::Bit => "bit",
        }
    }

    /// The subtype of blobs with such elements; sqlite-vec knows all but `F16`.
    pub const fn subtype(self) -> u8 {
        match self {
            Element::F32 => 223,
            Element::Bit => 224,
            Element::Int8 => 225,
            Element::F16 => 226,
        }
    }

    /// The elements of a blob with a subtype; floats where there is none.
    pub const fn of_subtype(subtype: u8) -> Element {
        match subtype {
            224 => Element::Bit,
            225 => Element::Int8,
            226 => Element::F16,
            _ => Element::F32,
        }
    }

    /// The bytes of a vector.
    pub const fn bytes(self, dimensions: usize) -> usize {
        match self {
            Element::F32 => dimensions * 4,
            Element::F16 => dimensions * 2,
            Element::Int8 => dimensions,
            Element::Bit => dimensions / 8,
        }
    }

    /// The elements of so many bytes; `None` where a part of one would be left.
    pub const fn dimensions(self, bytes: usize) -> Option<usize> {
        match self {
            Element::F32 if bytes.is_multiple_of(4) => Some(bytes / 4),
            Element::F16 if bytes.is_multiple_of(2) => Some(bytes / 2),
            Element::Int8 => Some(bytes),
            Element::Bit => Some(bytes * 8),
            _ => None,
        }
    }
}

/// Why a value is no vector, or two vectors do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// A value of another storage class.
    #[error("Input must have type BLOB (compact format) or TEXT (JSON), found {0}")]
    Class(&'static str),
    /// No elements.
    #[error("zero-length vectors are not supported.")]
    Empty,
    /// A blob ending within an element.
    #[error("invalid {name} vector BLOB length. Must be divisible by {width}, found {found}")]
    Length {
        /// The kind of elements.
        name: &'static str,
        /// Bytes of an element.
        width: usize,
        /// Bytes of the blob.
        found: usize,
    },
    /// More elements than [`DIMENSIONS_MAX`].
    #[error("a vector has at most {DIMENSIONS_MAX} dimensions, found {0}")]
    Long(usize),
    /// A text without the `[` of an array at the beginning.
    #[error("JSON array parsing error: Input does not start with '['")]
    NoArray,
    /// A text other than an array of numbers, with the place of the first wrong byte.
    #[error("JSON parsing error at byte {0}: a vector is an array of finite numbers")]
    Json(usize),
    /// A number outside the range of the elements.
    #[error("JSON parsing error: value out of range for {0}")]
    Range(&'static str),
    /// Bits from a text.
    #[error("Unknown type for bitvector.")]
    BitText,
    /// Two kinds of elements.
    #[error("Vector type mistmatch. First vector has type {0}, while the second has type {1}.")]
    Types(&'static str, &'static str),
    /// Two lengths.
    #[error(
        "Vector dimension mistmatch. First vector has {0} dimensions, while the second has {1} \
         dimensions."
    )]
    Dimensions(usize, usize),
    /// An operation undefined for the elements.
    #[error("{0}")]
    Refused(&'static str),
}

impl From<VectorError> for Error {
    fn from(error: VectorError) -> Error {
        Error::of_function(error.to_string())
    }
}

/// A vector of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector<'v> {
    /// The kind of elements.
    pub element: Element,
    /// The number of elements.
    pub dimensions: usize,
    /// The elements as a blob has them.
    pub bytes: Cow<'v, [u8]>,
}

impl<'v> Vector<'v> {
    /// Reads a value as a vector of these elements: a blob, or an array of numbers in JSON.
    ///
    /// # Errors
    /// Values of other storage classes, or without elements.
    pub fn read(value: &'v Value, element: Element) -> Result<Vector<'v>, VectorError> {
        let bytes = match value {
            Value::Blob(bytes) => Cow::Borrowed(bytes.as_slice()),
            Value::Text(_) if element == Element::Bit => return Err(VectorError::BitText),
            Value::Text(text) => Cow::Owned(array(text, element)?),
            Value::Null => return Err(VectorError::Class("NULL")),
            Value::Int(_) => return Err(VectorError::Class("INTEGER")),
            Value::Real(_) => return Err(VectorError::Class("FLOAT")),
        };
        if bytes.is_empty() {
            return Err(VectorError::Empty);
        }
        let (name, width, found) = (element.name(), element.bytes(8) / 8, bytes.len());
        let dimensions =
            element.dimensions(found).ok_or(VectorError::Length { name, width, found })?;
        match dimensions > DIMENSIONS_MAX {
            true => Err(VectorError::Long(dimensions)),
            false => Ok(Vector { element, dimensions, bytes }),
        }
    }

    /// The elements of floats and half floats.
    pub fn floats(&self) -> Vec<f32> {
        floats(self.element, &self.bytes)
    }

    /// A vector of these floats.
    pub(crate) fn of_floats(floats: &[f32]) -> Vector<'static> {
        let bytes: Vec<u8> = floats.iter().flat_map(|it| it.to_le_bytes()).collect();
        Vector { element: Element::F32, dimensions: floats.len(), bytes: Cow::Owned(bytes) }
    }

    /// The vector as JSON: floats with six digits, NaN as null.
    pub(crate) fn to_json(&self) -> String {
        use std::fmt::Write;
        let mut text = String::from("[");
        for place in 0..self.dimensions {
            if place > 0 {
                text.push(',');
            }
            let _ = match self.element {
                Element::F32 | Element::F16 => match self.float(place) {
                    float if float.is_nan() => write!(text, "null"),
                    float if float.is_infinite() && float > 0.0 => write!(text, "Inf"),
                    float if float.is_infinite() => write!(text, "-Inf"),
                    float => write!(text, "{:.6}", f64::from(float) + 0.0),
                },
                Element::Int8 => write!(text, "{}", self.bytes[place].cast_signed()),
                Element::Bit => write!(text, "{}", self.bytes[place / 8] >> (place % 8) & 1),
            };
        }
        text.push(']');
        text
    }

    /// An element as a number.
    pub(crate) fn float(&self, place: usize) -> f32 {
        match self.element {
            Element::F32 => {
                let bytes = self.bytes[place * 4..].first_chunk().copied();
                f32::from_le_bytes(bytes.unwrap_or_default())
            }
            Element::F16 => {
                let bytes = self.bytes[place * 2..].first_chunk().copied();
                half_to_float(u16::from_le_bytes(bytes.unwrap_or_default()))
            }
            Element::Int8 => f32::from(self.bytes[place].cast_signed()),
            Element::Bit => f32::from(self.bytes[place / 8] >> (place % 8) & 1),
        }
    }
}

/// The floats of a blob.
pub(crate) fn floats(element: Element, bytes: &[u8]) -> Vec<f32> {
    match element {
        Element::F16 => halves(bytes).into_iter().map(half_to_float).collect(),
        _ => bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect(),
    }
}

/// The half floats of a blob.
pub(crate) fn halves(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks().0.iter().map(|two| u16::from_le_bytes(*two)).collect()
}

/// The bytes of a JSON array's numbers.
fn array(text: &[u8], element: Element) -> Result<Vec<u8>, VectorError> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    if text.is_empty() {
        return Err(VectorError::Empty);
    }
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    if text.get(start) != Some(&b'[') {
        return Err(VectorError::NoArray);
    }
    let skip = |mut at: usize| {
        while text.get(at).is_some_and(is_space) {
            at += 1;
        }
        at
    };
    let mut bytes = Vec::new();
    let mut at = skip(start + 1);
    if text.get(at) == Some(&b']') {
        return Err(VectorError::Empty);
    }
    loop {
        let is_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let rest = &text[at..];
        let end = rest.iter().position(|byte| !is_number(byte)).unwrap_or(rest.len());
        let number = std::str::from_utf8(&rest[..end]).map_err(|_| VectorError::Json(at))?;
        push(&mut bytes, number, element).ok_or(VectorError::Json(at))??;
        at = skip(at + end);
        match text.get(at) {
            Some(b',') => at = skip(at + 1),
            Some(b']') if skip(at + 1) == text.len() => return Ok(bytes),
            _ => return Err(VectorError::Json(at)),
        }
    }
}

/// Appends a number; `None` for any other text.
fn push(bytes: &mut Vec<u8>, number: &str, element: Element) -> Option<Result<(), VectorError>> {
    let range = Some(Err(VectorError::Range(element.name())));
    if element == Element::Int8 {
        let whole: i64 = number.parse().ok()?;
        let Ok(byte) = i8::try_from(whole) else { return range };
        bytes.push(byte.cast_unsigned());
        return Some(Ok(()));
    }
    let float = number.parse::<f64>().ok()? as f32;
    match element {
        Element::F16 => {
            let half = float_to_half(float);
            if half & 0x7FFF == 0x7C00 {
                return range;
            }
            bytes.extend_from_slice(&half.to_le_bytes());
        }
        _ if float.is_infinite() => return range,
        _ => bytes.extend_from_slice(&float.to_le_bytes()),
    }
    Some(Ok(()))
}
