//! Payloads continued on overflow pages.

use shoal_format::overflow::OverflowPage;
use shoal_format::utf16::record_to_utf8;
use shoal_format::{Corrupt, Payload, Pgno};

use crate::{Error, Transaction};

impl Transaction {
    /// Clears `out` and copies a whole payload there, in the file's encoding.
    ///
    /// Cost: one page read per overflow page. The buffer is as large as the payload states, after a
    /// check of the stated length against the size of the file.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a corrupt chain of overflow pages; a page that cannot be read.
    pub fn read_payload(&self, payload: Payload<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        out.clear();
        out.reserve(self.check_payload_len(payload.len)?);
        out.extend_from_slice(payload.local);
        let mut next = payload.overflow;
        while out.len() < payload.len {
            let pgno = next.ok_or_else(|| {
                let missing = (payload.len - out.len()) as u64;
                Corrupt::new("overflow chain", "ends early, bytes missing", missing)
            })?;
            let view = OverflowPage::new(self.page(pgno)?, pgno, self.usable())?;
            let length = view.content.len().min(payload.len - out.len());
            out.extend_from_slice(&view.content[..length]);
            next = view.next;
        }
        Ok(())
    }

    /// Puts a record with its text in UTF-8 into `out`, whatever the file's encoding.
    ///
    /// # Errors
    /// As [`Transaction::read_payload`]; [`Error::Corrupt`] for a record with broken UTF-16.
    pub fn read_record(&self, payload: Payload<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        self.read_payload(payload, out)?;
        if let Some(order) = self.utf16() {
            let mut text = Vec::with_capacity(out.len());
            record_to_utf8(out, order, &mut text)?;
            *out = text;
        }
        Ok(())
    }

    /// Returns `len` if a payload of so many bytes can be in the file.
    fn check_payload_len(&self, len: usize) -> Result<usize, Error> {
        let most = u64::from(self.page_count()) * self.usable() as u64;
        if len as u64 > most {
            let why = "is longer than the file, bytes";
            return Err(Corrupt::new("payload", why, len as u64).into());
        }
        Ok(len)
    }

    /// Calls `each` with the pages of the overflow chain of `payload`, in order.
    pub(crate) fn overflow_chain(
        &self,
        payload: Payload<'_>,
        mut each: impl FnMut(Pgno) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut rest = self.check_payload_len(payload.len)? - payload.local.len();
        let mut next = payload.overflow;
        while rest > 0 {
            let pgno = next.ok_or_else(|| {
                Corrupt::new("overflow chain", "ends early, bytes missing", rest as u64)
            })?;
            let view = OverflowPage::new(self.page(pgno)?, pgno, self.usable())?;
            rest = rest.saturating_sub(view.content.len());
            next = view.next;
            each(pgno)?;
        }
        Ok(())
    }
}
