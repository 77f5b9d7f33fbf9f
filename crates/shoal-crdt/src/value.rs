//! Values for callers: properties, values, object types, index units.

use shoal_history::{Action, Scalar, ScalarRef};
use unicode_segmentation::UnicodeSegmentation;

/// Where a value is in its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prop<'a> {
    /// The key of a map entry.
    Key(&'a str),
    /// The index of a list item, or of a character in the unit of the document's
    /// [`TextEncoding`].
    Index(usize),
}

impl<'a> From<&'a str> for Prop<'a> {
    fn from(key: &'a str) -> Self {
        Self::Key(key)
    }
}

impl<'a> From<&'a String> for Prop<'a> {
    fn from(key: &'a String) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Prop<'_> {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The types of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjType {
    /// Values by key.
    Map,
    /// A map used for rows in old documents; reads as a map, and refuses `put`.
    Table,
    /// Values by index.
    List,
    /// Characters by index.
    Text,
}

impl ObjType {
    /// True for types with indexes rather than keys.
    pub fn is_sequence(self) -> bool {
        matches!(self, Self::List | Self::Text)
    }

    pub(crate) fn made_by(action: Action) -> Option<Self> {
        match action {
            Action::MakeMap => Some(Self::Map),
            Action::MakeTable => Some(Self::Table),
            Action::MakeList => Some(Self::List),
            Action::MakeText => Some(Self::Text),
            Action::Set | Action::Delete | Action::Increment | Action::Mark => None,
        }
    }

    pub(crate) fn make_action(self) -> Action {
        match self {
            Self::Map => Action::MakeMap,
            Self::Table => Action::MakeTable,
            Self::List => Action::MakeList,
            Self::Text => Action::MakeText,
        }
    }

    /// The type's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Table => "table",
            Self::List => "list",
            Self::Text => "text",
        }
    }
}

/// A value read from a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An object of this type; the id comes with the value.
    Object(ObjType),
    /// A scalar. A counter holds its total: the start value and every increment.
    Scalar(ScalarRef<'a>),
}

impl<'a> Value<'a> {
    /// The text, if this is a scalar string.
    pub fn as_str(&self) -> Option<&'a str> {
        match self {
            Self::Scalar(ScalarRef::Str(text)) => Some(text),
            _ => None,
        }
    }

    /// The object's type, if this is an object.
    pub fn as_object(&self) -> Option<ObjType> {
        match self {
            Self::Object(kind) => Some(*kind),
            Self::Scalar(_) => None,
        }
    }
}

/// Types convertible to a scalar value.
///
/// Signed integers become `Int`, unsigned ones `Uint`, as in the reference.
pub trait IntoScalar {
    /// The value to store.
    fn into_scalar(self) -> Scalar;
}

macro_rules! into_scalar {
    ($($from:ty => |$value:ident| $scalar:expr;)*) => {$(
        impl IntoScalar for $from {
            fn into_scalar(self) -> Scalar {
                let $value = self;
                $scalar
            }
        }
    )*};
}

into_scalar! {
    Scalar => |value| value;
    ScalarRef<'_> => |value| value.to_scalar();
    &Scalar => |value| value.clone();
    &str => |value| Scalar::Str(value.into());
    String => |value| Scalar::Str(value.into());
    &String => |value| Scalar::Str(value.as_str().into());
    char => |value| Scalar::Str((&*value.encode_utf8(&mut [0; 4])).into());
    i32 => |value| Scalar::Int(value.into());
    i64 => |value| Scalar::Int(value);
    u32 => |value| Scalar::Uint(value.into());
    u64 => |value| Scalar::Uint(value);
    f64 => |value| Scalar::F64(value);
    bool => |value| Scalar::Boolean(value);
    () => |_value| Scalar::Null;
    Vec<u8> => |value| Scalar::Bytes(value.into());
    &[u8] => |value| Scalar::Bytes(value.into());
}

/// The unit of indexes and lengths of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TextEncoding {
    /// Unicode code points.
    #[default]
    UnicodeCodePoint,
    /// Bytes of UTF-8.
    Utf8CodeUnit,
    /// 16-bit units of UTF-16, as in JavaScript.
    Utf16CodeUnit,
    /// User-perceived characters (UAX #29); inserted text has an op for each.
    GraphemeCluster,
}

impl TextEncoding {
    /// The length of `text` in this unit.
    pub fn width(self, text: &str) -> usize {
        match self {
            Self::UnicodeCodePoint => text.chars().count(),
            Self::Utf8CodeUnit => text.len(),
            Self::Utf16CodeUnit => text.chars().map(char::len_utf16).sum(),
            Self::GraphemeCluster => text.graphemes(true).count(),
        }
    }
}

/// The text of an element without a string: an object, a number, a block.
pub(crate) const OBJECT_REPLACEMENT: &str = "\u{fffc}";
