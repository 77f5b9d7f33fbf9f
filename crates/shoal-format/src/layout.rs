//! Fixed layouts, declared once: offsets, docs, accessors and the check that fields do not overlap
//! come from the same lines.

/// A value of fixed size on disk, big-endian.
pub trait Field: Sized {
    /// Bytes on disk.
    const SIZE: usize;
    /// Reads the value from the first [`Field::SIZE`] bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Writes the value into the first [`Field::SIZE`] bytes.
    fn write(self, bytes: &mut [u8]);
}

impl Field for u8 {
    const SIZE: usize = 1;
    #[inline]
    fn read(bytes: &[u8]) -> u8 {
        bytes[0]
    }
    #[inline]
    fn write(self, bytes: &mut [u8]) {
        bytes[0] = self;
    }
}

impl Field for u16 {
    const SIZE: usize = 2;
    #[inline]
    fn read(bytes: &[u8]) -> u16 {
        u16::from_be_bytes([bytes[0], bytes[1]])
    }
    #[inline]
    fn write(self, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&self.to_be_bytes());
    }
}

impl Field for u32 {
    const SIZE: usize = 4;
    #[inline]
    fn read(bytes: &[u8]) -> u32 {
        u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
    #[inline]
    fn write(self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&self.to_be_bytes());
    }
}

impl<const N: usize> Field for [u8; N] {
    const SIZE: usize = N;
    fn read(bytes: &[u8]) -> [u8; N] {
        let mut value = [0; N];
        value.copy_from_slice(&bytes[..N]);
        value
    }
    fn write(self, bytes: &mut [u8]) {
        bytes[..N].copy_from_slice(&self);
    }
}

/// Declares a borrowed view (`View::field()` reads) and its writing twin (`Edit::field(value)`
/// writes) over an array of the structure's size.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        pub struct $view:ident / $edit:ident [$size:literal] {
            $( $(#[$field_meta:meta])* $field:ident : $type:ty = $offset:literal ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        ///
        /// | offset | field | type |
        /// |---|---|---|
        $( #[doc = concat!("| ", $offset, " | `", stringify!($field), "` | `", stringify!($type), "` |")] )*
        #[derive(Clone, Copy, Debug)]
        pub struct $view<'a> {
            bytes: &'a [u8; $size],
        }

        impl<'a> $view<'a> {
            /// Bytes of the structure.
            pub const SIZE: usize = $size;
            /// Every field as (name, offset, bytes), in file order.
            pub const FIELDS: &'static [(&'static str, usize, usize)] =
                &[$((stringify!($field), $offset, <$type as $crate::layout::Field>::SIZE)),*];

            /// Views `bytes` as the structure.
            pub const fn new(bytes: &'a [u8; $size]) -> Self {
                Self { bytes }
            }

            $(
                $(#[$field_meta])*
                #[inline]
                pub fn $field(&self) -> $type {
                    <$type as $crate::layout::Field>::read(&self.bytes[$offset..])
                }
            )*
        }

        #[doc = concat!("Writes the fields of [`", stringify!($view), "`].")]
        #[derive(Debug)]
        pub struct $edit<'a> {
            bytes: &'a mut [u8; $size],
        }

        impl<'a> $edit<'a> {
            /// Views `bytes` as the structure, for writing.
            pub const fn new(bytes: &'a mut [u8; $size]) -> Self {
                Self { bytes }
            }

            $(
                #[doc = concat!("Writes `", stringify!($field), "`.")]
                #[inline]
                pub fn $field(&mut self, value: $type) -> &mut Self {
                    <$type as $crate::layout::Field>::write(value, &mut self.bytes[$offset..]);
                    self
                }
            )*
        }

        const _: () = {
            let fields = $view::FIELDS;
            let mut index = 0;
            let mut end = 0;
            while index < fields.len() {
                assert!(fields[index].1 >= end, "fields overlap or are out of order");
                end = fields[index].1 + fields[index].2;
                index += 1;
            }
            assert!(end <= $size, "fields pass the end of the structure");
        };
    };
}
