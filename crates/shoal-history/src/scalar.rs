//! Scalar values as the value columns hold them (value metadata types 0 to 15).

use std::sync::Arc;

/// A scalar value that borrows from the bytes it was read from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarRef<'a> {
    /// No value.
    Null,
    /// A truth value.
    Boolean(bool),
    /// An unsigned integer.
    Uint(u64),
    /// A signed integer.
    Int(i64),
    /// A 64-bit float.
    F64(f64),
    /// A text that is replaced as a whole.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// The start value of a counter; increments are ops of their own.
    Counter(i64),
    /// Milliseconds since the Unix epoch.
    Timestamp(i64),
    /// A value of a type this version does not know, kept verbatim.
    Unknown {
        /// 10 to 15.
        type_code: u8,
        /// Its payload.
        bytes: &'a [u8],
    },
}

/// A scalar value that owns its bytes. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// No value.
    Null,
    /// A truth value.
    Boolean(bool),
    /// An unsigned integer.
    Uint(u64),
    /// A signed integer.
    Int(i64),
    /// A 64-bit float.
    F64(f64),
    /// A text that is replaced as a whole.
    Str(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// The start value of a counter.
    Counter(i64),
    /// Milliseconds since the Unix epoch.
    Timestamp(i64),
    /// A value of a type this version does not know, kept verbatim.
    Unknown {
        /// 10 to 15.
        type_code: u8,
        /// Its payload.
        bytes: Arc<[u8]>,
    },
}

impl Scalar {
    /// The value, borrowed.
    pub fn as_ref(&self) -> ScalarRef<'_> {
        match self {
            Self::Null => ScalarRef::Null,
            Self::Boolean(value) => ScalarRef::Boolean(*value),
            Self::Uint(value) => ScalarRef::Uint(*value),
            Self::Int(value) => ScalarRef::Int(*value),
            Self::F64(value) => ScalarRef::F64(*value),
            Self::Str(value) => ScalarRef::Str(value),
            Self::Bytes(value) => ScalarRef::Bytes(value),
            Self::Counter(value) => ScalarRef::Counter(*value),
            Self::Timestamp(value) => ScalarRef::Timestamp(*value),
            Self::Unknown { type_code, bytes } => {
                ScalarRef::Unknown { type_code: *type_code, bytes }
            }
        }
    }
}

impl ScalarRef<'_> {
    /// The value with bytes of its own.
    pub fn to_scalar(self) -> Scalar {
        match self {
            Self::Null => Scalar::Null,
            Self::Boolean(value) => Scalar::Boolean(value),
            Self::Uint(value) => Scalar::Uint(value),
            Self::Int(value) => Scalar::Int(value),
            Self::F64(value) => Scalar::F64(value),
            Self::Str(value) => Scalar::Str(value.into()),
            Self::Bytes(value) => Scalar::Bytes(value.into()),
            Self::Counter(value) => Scalar::Counter(value),
            Self::Timestamp(value) => Scalar::Timestamp(value),
            Self::Unknown { type_code, bytes } => {
                Scalar::Unknown { type_code, bytes: bytes.into() }
            }
        }
    }
}
