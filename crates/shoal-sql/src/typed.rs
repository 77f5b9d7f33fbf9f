//! Identifiers and exact decimals in columns: values without a storage class of their own.
//!
//! A GUID is a blob of 16 bytes, in the order of RFC 9562 (big-endian throughout), in a column
//! declared `GUID` or `UUID`. A decimal is a blob of 16 bytes in a column declared `FIX128`,
//! `DECIMAL128` or `DECIMAL`: four big-endian words, the low, middle and high one of an integer of
//! 96 bits, then sign and scale. Either may instead be two integer columns, `x__hi` and `x__lo` for
//! a
//! GUID `x`, `x__dhi` and `x__dlo` for a decimal, each with 64 of the 128 bits.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::reader::TableReader;
use crate::value::{Value, ValueRef};

/// An identifier of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub [u8; 16]);

/// A number of up to 28 digits: `mantissa / 10^scale`, without zeroes at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// Below 2^96.
    mantissa: u128,
    /// At most 28.
    scale: u8,
    /// Never of 0.
    negative: bool,
}

/// Why a text, a number or a blob is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a {what}")]
pub struct NotTyped {
    what: &'static str,
}

const NOT_A_GUID: NotTyped = NotTyped { what: "GUID" };
const NOT_A_DECIMAL: NotTyped = NotTyped { what: "decimal of 96 bits" };

/// The largest scale.
const SCALE_MAX: u8 = 28;
/// The first mantissa out of range.
const MANTISSA_END: u128 = 1 << 96;
/// Sign bit of the last word: set for a negative decimal.
const SIGN: u32 = 1 << 31;

impl Decimal {
    /// `mantissa / 10^scale`.
    ///
    /// # Errors
    /// [`NotTyped`] for more than 96 bits or a scale above 28.
    pub fn new(mantissa: i128, scale: u8) -> Result<Decimal, NotTyped> {
        let negative = mantissa < 0;
        let (mut mantissa, mut scale) = (mantissa.unsigned_abs(), scale);
        while scale > 0 && mantissa.is_multiple_of(10) {
            mantissa /= 10;
            scale -= 1;
        }
        if mantissa >= MANTISSA_END || scale > SCALE_MAX {
            return Err(NOT_A_DECIMAL);
        }
        Ok(Decimal { mantissa, scale, negative })
    }

    /// The digits as an integer.
    pub fn mantissa(&self) -> i128 {
        // Below 2^96: the conversion loses nothing.
        let mantissa = self.mantissa.cast_signed();
        if self.negative { -mantissa } else { mantissa }
    }

    /// The number of digits behind the point.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// The bytes as a column has them.
    pub fn to_bytes(&self) -> [u8; 16] {
        let word = |shift: u32| (self.mantissa >> shift) as u32;
        let flags = u32::from(self.scale) << 16 | if self.negative { SIGN } else { 0 };
        let mut out = [0; 16];
        for (place, word) in [word(0), word(32), word(64), flags].into_iter().enumerate() {
            out[place * 4..place * 4 + 4].copy_from_slice(&word.to_be_bytes());
        }
        out
    }

    /// Reads the bytes of a column.
    ///
    /// # Errors
    /// [`NotTyped`] for a scale above 28 and for unknown flags.
    pub fn from_bytes(bytes: [u8; 16]) -> Result<Decimal, NotTyped> {
        let word = |place: usize| {
            let at = place * 4;
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let flags = word(3);
        if flags & !(SIGN | 0xff << 16) != 0 {
            return Err(NOT_A_DECIMAL);
        }
        let mantissa = i128::from(word(0)) | i128::from(word(1)) << 32 | i128::from(word(2)) << 64;
        let mantissa = if flags & SIGN != 0 { -mantissa } else { mantissa };
        Decimal::new(mantissa, (flags >> 16) as u8)
    }
}

impl TryFrom<ValueRef<'_>> for Guid {
    type Error = NotTyped;

    fn try_from(value: ValueRef<'_>) -> Result<Guid, NotTyped> {
        match value {
            ValueRef::Blob(bytes) => bytes.try_into().map(Guid).map_err(|_| NOT_A_GUID),
            _ => Err(NOT_A_GUID),
        }
    }
}

impl TryFrom<ValueRef<'_>> for Decimal {
    type Error = NotTyped;

    fn try_from(value: ValueRef<'_>) -> Result<Decimal, NotTyped> {
        match value {
            ValueRef::Blob(bytes) => {
                Decimal::from_bytes(bytes.try_into().map_err(|_| NOT_A_DECIMAL)?)
            }
            _ => Err(NOT_A_DECIMAL),
        }
    }
}

impl From<Guid> for Value {
    fn from(guid: Guid) -> Value {
        Value::Blob(guid.0.to_vec())
    }
}

impl From<Decimal> for Value {
    fn from(decimal: Decimal) -> Value {
        Value::Blob(decimal.to_bytes().to_vec())
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Guid {
    type Err = NotTyped;

    /// Reads 32 hexadecimal digits, with or without the hyphens and braces around them.
    fn from_str(text: &str) -> Result<Guid, NotTyped> {
        let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
        let mut out = [0; 16];
        let mut digits = inner.chars().filter(|c| *c != '-').map(|c| c.to_digit(16));
        for byte in &mut out {
            let mut digit = || digits.next().flatten().ok_or(NOT_A_GUID);
            *byte = (digit()? << 4 | digit()?) as u8;
        }
        let hyphens = inner.match_indices('-').map(|(at, _)| at);
        let hyphens: Vec<usize> = hyphens.collect();
        let fits = hyphens.is_empty() || hyphens == [8, 13, 18, 23];
        if fits && digits.next().is_none() { Ok(Guid(out)) } else { Err(NOT_A_GUID) }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::from(self.scale);
        let digits = format!("{:0>width$}", self.mantissa, width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        if self.negative {
            f.write_str("-")?;
        }
        f.write_str(whole)?;
        if fraction.is_empty() { Ok(()) } else { write!(f, ".{fraction}") }
    }
}

impl FromStr for Decimal {
    type Err = NotTyped;

    /// Reads digits with a sign and a point where there are.
    fn from_str(text: &str) -> Result<Decimal, NotTyped> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fraction = fraction.trim_end_matches('0');
        let all = [whole, fraction].concat();
        let plain = !whole.is_empty() || !fraction.is_empty() || digits.contains('0');
        if !plain || all.bytes().any(|byte| !byte.is_ascii_digit()) || all.len() > 38 {
            return Err(NOT_A_DECIMAL);
        }
        let mantissa: i128 =
            if all.is_empty() { 0 } else { all.parse().map_err(|_| NOT_A_DECIMAL)? };
        let scale = u8::try_from(fraction.len()).map_err(|_| NOT_A_DECIMAL)?;
        Decimal::new(if negative { -mantissa } else { mantissa }, scale)
    }
}

impl TableReader<'_> {
    /// The GUID in the column called `name`, or in its two columns; `None` for NULL.
    ///
    /// # Errors
    /// [`Error::Misuse`] where no column called `name` is declared so; [`Error::Runtime`] for a
    /// value other than a GUID; as [`TableReader::value`].
    pub fn guid(&mut self, name: &str) -> Result<Option<Guid>, Error> {
        match self.bits(name, &["GUID", "UUID"], ("__hi", "__lo"))? {
            None => Ok(None),
            Some(Some(bytes)) => Ok(Some(Guid(bytes))),
            Some(None) => Err(Error::runtime(format!("{name}: {NOT_A_GUID}"))),
        }
    }

    /// The decimal in the column called `name`, or in its two columns; `None` for NULL.
    ///
    /// # Errors
    /// As [`TableReader::guid`].
    pub fn decimal(&mut self, name: &str) -> Result<Option<Decimal>, Error> {
        let types = ["FIX128", "DECIMAL128", "DECIMAL"];
        let decimal = match self.bits(name, &types, ("__dhi", "__dlo"))? {
            None => return Ok(None),
            Some(Some(bytes)) => Decimal::from_bytes(bytes),
            Some(None) => Err(NOT_A_DECIMAL),
        };
        decimal.map(Some).map_err(|error| Error::runtime(format!("{name}: {error}")))
    }

    /// The 16 bytes of a column or of two; `None` for NULL, `Some(None)` for something else.
    fn bits(
        &mut self,
        name: &str,
        types: &[&str],
        (high, low): (&str, &str),
    ) -> Result<Option<Option<[u8; 16]>>, Error> {
        let table = self.table();
        if let Some(column) = table.column_index(name) {
            let declared = table.columns()[column].declared_type();
            if !types.iter().any(|known| known.eq_ignore_ascii_case(declared)) {
                return Err(Error::Misuse { what: "the column is not declared as such a type" });
            }
            return Ok(match self.value(column)? {
                ValueRef::Null => None,
                ValueRef::Blob(bytes) => Some(bytes.try_into().ok()),
                _ => Some(None),
            });
        }
        let half = |suffix: &str| table.column_index(&format!("{name}{suffix}"));
        let (Some(high), Some(low)) = (half(high), half(low)) else {
            return Err(Error::Misuse { what: "no column has that name" });
        };
        let mut words = [0; 2];
        for (word, column) in words.iter_mut().zip([high, low]) {
            *word = match self.value(column)? {
                ValueRef::Null => return Ok(None),
                ValueRef::Int(int) => int,
                _ => return Ok(Some(None)),
            };
        }
        let mut out = [0; 16];
        out[..8].copy_from_slice(&words[0].to_be_bytes());
        out[8..].copy_from_slice(&words[1].to_be_bytes());
        Ok(Some(Some(out)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Connection;

    #[test]
    fn guids_as_text() {
        let text = "00112233-4455-6677-8899-aabbccddeeff";
        let guid: Guid = text.parse().unwrap();
        assert_eq!(guid.0[..6], [0, 0x11, 0x22, 0x33, 0x44, 0x55]);
        assert_eq!(guid.to_string(), text);
        assert_eq!(format!("{{{}}}", text.to_uppercase()).parse(), Ok(guid));
        assert_eq!(text.replace('-', "").parse(), Ok(guid));
        for wrong in ["", "0011", "0-0112233-4455-6677-8899-aabbccddeef", "x".repeat(32).as_str()] {
            assert!(wrong.parse::<Guid>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn decimals_as_text_and_bytes() {
        let check = |text: &str, shown: &str| {
            let decimal: Decimal = text.parse().unwrap();
            assert_eq!(decimal.to_string(), shown);
            assert_eq!(Decimal::from_bytes(decimal.to_bytes()), Ok(decimal));
        };
        check("0", "0");
        check("-0.00", "0");
        check("1.50", "1.5");
        check("-0.001", "-0.001");
        check("+12", "12");
        check(".25", "0.25");
        check("79228162514264337593543950335", "79228162514264337593543950335");
        check("0.0000000000000000000000000001", "0.0000000000000000000000000001");
        for wrong in ["", ".", "-", "1e3", "79228162514264337593543950336", "1.2.3", "0x1"] {
            assert!(wrong.parse::<Decimal>().is_err(), "{wrong}");
        }
        assert!(Decimal::from_bytes([1; 16]).is_err());
        let mut scale = Decimal::new(1, 28).unwrap().to_bytes();
        scale[13] = 29;
        assert!(Decimal::from_bytes(scale).is_err());
    }

    #[test]
    fn columns_of_one_or_two() {
        let mut connection = Connection::open(shoal_store::Store::memory()).unwrap();
        let mut run = |sql: &str, values: Vec<Value>| {
            let mut statement = connection.prepare(sql).unwrap();
            for (place, value) in values.into_iter().enumerate() {
                statement.bind(place + 1, value).unwrap();
            }
            connection.execute(&mut statement).unwrap();
        };
        run(
            "CREATE TABLE t(g GUID, d DECIMAL, h__hi INT, h__lo INT, e__dhi INT, e__dlo INT, x)",
            vec![],
        );
        let guid: Guid = "00112233-4455-6677-8899-aabbccddeeff".parse().unwrap();
        let decimal: Decimal = "-12.345".parse().unwrap();
        let halves = |bytes: [u8; 16]| {
            let half = |at: usize| bytes[at..at + 8].try_into().map(i64::from_be_bytes).unwrap();
            [Value::Int(half(0)), Value::Int(half(8))]
        };
        let mut values = vec![Value::from(guid), Value::from(decimal)];
        values.extend(halves(guid.0));
        values.extend(halves(decimal.to_bytes()));
        values.push(Value::Null);
        run("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)", values);
        run("INSERT INTO t(d) VALUES (x'00')", vec![]);
        connection.begin(shoal_store::Mode::Read).unwrap();
        let mut reader = connection.table_reader("t").unwrap();
        assert!(reader.next().unwrap());
        assert_eq!(reader.guid("g").unwrap(), Some(guid));
        assert_eq!(reader.guid("h").unwrap(), Some(guid));
        assert_eq!(reader.decimal("D").unwrap(), Some(decimal));
        assert_eq!(reader.decimal("e").unwrap(), Some(decimal));
        assert!(matches!(reader.guid("d"), Err(Error::Misuse { .. })));
        assert!(matches!(reader.decimal("x"), Err(Error::Misuse { .. })));
        assert!(matches!(reader.guid("nosuch"), Err(Error::Misuse { .. })));
        assert!(reader.next().unwrap());
        assert_eq!(reader.guid("g").unwrap(), None);
        assert_eq!(reader.guid("h").unwrap(), None);
        assert!(matches!(reader.decimal("d"), Err(Error::Runtime { .. })));
    }
}
