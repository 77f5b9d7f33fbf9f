//! Reading and writing the small binary forms of cursors and object ids.

/// Bytes from elsewhere, read front to back. Errors name the fault.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, &'static str> {
        let (first, rest) = self.bytes.split_first().ok_or("too short")?;
        self.bytes = rest;
        Ok(*first)
    }

    /// An unsigned LEB128 number in as few bytes as possible.
    pub(crate) fn uleb(&mut self) -> Result<u64, &'static str> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err("number too great");
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return if byte == 0 && shift > 0 { Err("overlong number") } else { Ok(value) };
            }
        }
        Err("number too great")
    }

    /// The counter of an op: not 0, 32 bits.
    pub(crate) fn counter(&mut self) -> Result<u32, &'static str> {
        let counter = u32::try_from(self.uleb()?).map_err(|_| "counter too great")?;
        if counter == 0 { Err("counter 0") } else { Ok(counter) }
    }

    pub(crate) fn length_prefixed(&mut self) -> Result<&'a [u8], &'static str> {
        let length = usize::try_from(self.uleb()?).map_err(|_| "too short")?;
        let (bytes, rest) = self.bytes.split_at_checked(length).ok_or("too short")?;
        self.bytes = rest;
        Ok(bytes)
    }

    /// Refuses leftover bytes.
    pub(crate) fn finish(self) -> Result<(), &'static str> {
        if self.bytes.is_empty() { Ok(()) } else { Err("bytes left over") }
    }
}

pub(crate) fn write_uleb(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
