//! The file header: the first 100 bytes of page 1 (file format §1.3).

use crate::{Corrupt, Pgno};

layout! {
    /// The first 100 bytes of a database.
    pub struct HeaderBytes / HeaderBytesEdit [100] {
        /// `SQLite format 3\0`.
        magic: [u8; 16] = 0,
        /// Bytes of a page; 1 stands for 65536.
        page_size: u16 = 16,
        /// 1 rollback journal, 2 write-ahead log; a higher one may only be read.
        write_version: u8 = 18,
        /// 1 rollback journal, 2 write-ahead log; a higher one may not be read.
        read_version: u8 = 19,
        /// Bytes kept free at the end of each page.
        reserved: u8 = 20,
        /// 64, 32, 32.
        payload_fractions: [u8; 3] = 21,
        /// Grows with each commit in rollback mode.
        change_counter: u32 = 24,
        /// Pages of the file, when `version_valid_for` equals `change_counter`.
        page_count: u32 = 28,
        /// First trunk page of the freelist, 0 when none.
        freelist_trunk: u32 = 32,
        /// Pages on the freelist, trunks included.
        freelist_count: u32 = 36,
        /// Grows with each change of the schema.
        schema_cookie: u32 = 40,
        /// 1 to 4.
        schema_format: u32 = 44,
        /// Suggested page cache size.
        default_cache_size: u32 = 48,
        /// The largest root page of an auto-vacuum file, 0 in others.
        largest_root: u32 = 52,
        /// 1 UTF-8, 2 UTF-16LE, 3 UTF-16BE; 0 while there is no text.
        text_encoding: u32 = 56,
        /// The application's number.
        user_version: u32 = 60,
        /// Not 0 for incremental vacuum.
        incremental_vacuum: u32 = 64,
        /// The application's file type.
        application_id: u32 = 68,
        /// Kept as they are.
        unused: [u8; 20] = 72,
        /// The change counter when `writer_version` and `page_count` were written.
        version_valid_for: u32 = 92,
        /// SQLite version number of the writer.
        writer_version: u32 = 96,
    }
}

/// How TEXT is stored in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextEncoding {
    /// UTF-8.
    Utf8,
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-16, big-endian.
    Utf16Be,
}

/// The file header, checked: every field a later read relies on is in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Bytes of a page: a power of two, 512 to 65536.
    pub page_size: u32,
    /// 1 rollback journal, 2 write-ahead log; higher ones may only be read.
    pub write_version: u8,
    /// 1 rollback journal, 2 write-ahead log.
    pub read_version: u8,
    /// Bytes kept free at the end of each page.
    pub reserved: u8,
    /// Grows with each commit in rollback mode.
    pub change_counter: u32,
    /// Pages of the file as the last writer stated them; see [`FileHeader::stated_page_count`].
    pub page_count: u32,
    /// First trunk page of the freelist.
    pub freelist_trunk: Option<Pgno>,
    /// Pages on the freelist, trunks included.
    pub freelist_count: u32,
    /// Grows with each change of the schema.
    pub schema_cookie: u32,
    /// 1 to 4; 0 in a file without a schema.
    pub schema_format: u32,
    /// Suggested page cache size.
    pub default_cache_size: u32,
    /// The largest root page of an auto-vacuum file, 0 in others.
    pub largest_root: u32,
    /// How text is stored.
    pub text_encoding: TextEncoding,
    /// The application's number.
    pub user_version: i32,
    /// Not 0 for incremental vacuum.
    pub incremental_vacuum: u32,
    /// The application's file type.
    pub application_id: u32,
    /// Bytes 72 to 92, kept as they are.
    pub unused: [u8; 20],
    /// The change counter when `writer_version` and `page_count` were written.
    pub version_valid_for: u32,
    /// SQLite version number of the writer.
    pub writer_version: u32,
}

impl FileHeader {
    /// Bytes of the header.
    pub const SIZE: usize = HeaderBytes::SIZE;
    /// The first bytes of every database.
    pub const MAGIC: [u8; 16] = *b"SQLite format 3\0";
    /// The version of SQLite whose format this crate writes.
    pub const WRITER_VERSION: u32 = 3_049_002;
    /// Least usable bytes of a page.
    pub const MIN_USABLE: u32 = 480;

    /// The header of a new, empty database with pages of `page_size` bytes: UTF-8, schema format 4,
    /// rollback journal.
    pub fn create(page_size: u32) -> FileHeader {
        FileHeader {
            page_size,
            write_version: 1,
            read_version: 1,
            reserved: 0,
            change_counter: 0,
            page_count: 0,
            freelist_trunk: None,
            freelist_count: 0,
            schema_cookie: 0,
            schema_format: 4,
            default_cache_size: 0,
            largest_root: 0,
            text_encoding: TextEncoding::Utf8,
            user_version: 0,
            incremental_vacuum: 0,
            application_id: 0,
            unused: [0; 20],
            version_valid_for: 0,
            writer_version: Self::WRITER_VERSION,
        }
    }

    /// Reads and checks a header.
    ///
    /// # Errors
    /// [`Corrupt`] naming the field. A wrong magic is [`FileHeader::is_database`]'s business and
    /// reported here as well.
    pub fn parse(bytes: &[u8; 100]) -> Result<FileHeader, Corrupt> {
        let view = HeaderBytes::new(bytes);
        let corrupt = |why, value: u32| Corrupt::new("file header", why, u64::from(value));
        if view.magic() != Self::MAGIC {
            return Err(corrupt("has the wrong magic", u32::from(bytes[0])));
        }
        let page_size = match view.page_size() {
            1 => 65536,
            size if size >= 512 && size.is_power_of_two() => u32::from(size),
            size => return Err(corrupt("has no valid page size", u32::from(size))),
        };
        if page_size - u32::from(view.reserved()) < Self::MIN_USABLE {
            return Err(corrupt("reserves too much of a page", u32::from(view.reserved())));
        }
        if view.payload_fractions() != [64, 32, 32] {
            let value = u32::from(view.payload_fractions()[0]);
            return Err(corrupt("has the wrong payload fractions", value));
        }
        let text_encoding = match view.text_encoding() {
            0 | 1 => TextEncoding::Utf8,
            2 => TextEncoding::Utf16Le,
            3 => TextEncoding::Utf16Be,
            other => return Err(corrupt("has an unknown text encoding", other)),
        };
        if view.schema_format() > 4 {
            return Err(corrupt("has an unknown schema format", view.schema_format()));
        }
        Ok(FileHeader {
            page_size,
            write_version: view.write_version(),
            read_version: view.read_version(),
            reserved: view.reserved(),
            change_counter: view.change_counter(),
            page_count: view.page_count(),
            freelist_trunk: Pgno::new(view.freelist_trunk()),
            freelist_count: view.freelist_count(),
            schema_cookie: view.schema_cookie(),
            schema_format: view.schema_format(),
            default_cache_size: view.default_cache_size(),
            largest_root: view.largest_root(),
            text_encoding,
            user_version: view.user_version().cast_signed(),
            incremental_vacuum: view.incremental_vacuum(),
            application_id: view.application_id(),
            unused: view.unused(),
            version_valid_for: view.version_valid_for(),
            writer_version: view.writer_version(),
        })
    }

    /// True when `bytes` begins as a database does.
    pub fn is_database(bytes: &[u8]) -> bool {
        bytes.starts_with(&Self::MAGIC)
    }

    /// Writes the header.
    pub fn write(&self, bytes: &mut [u8; 100]) {
        let encoding = match self.text_encoding {
            TextEncoding::Utf8 => 1,
            TextEncoding::Utf16Le => 2,
            TextEncoding::Utf16Be => 3,
        };
        HeaderBytesEdit::new(bytes)
            .magic(Self::MAGIC)
            .page_size(u16::try_from(self.page_size).unwrap_or(1))
            .write_version(self.write_version)
            .read_version(self.read_version)
            .reserved(self.reserved)
            .payload_fractions([64, 32, 32])
            .change_counter(self.change_counter)
            .page_count(self.page_count)
            .freelist_trunk(self.freelist_trunk.map_or(0, Pgno::get))
            .freelist_count(self.freelist_count)
            .schema_cookie(self.schema_cookie)
            .schema_format(self.schema_format)
            .default_cache_size(self.default_cache_size)
            .largest_root(self.largest_root)
            .text_encoding(encoding)
            .user_version(self.user_version.cast_unsigned())
            .incremental_vacuum(self.incremental_vacuum)
            .application_id(self.application_id)
            .unused(self.unused)
            .version_valid_for(self.version_valid_for)
            .writer_version(self.writer_version);
    }

    /// Bytes of a page that the format may use: 480 to 65536.
    #[inline]
    pub fn usable(&self) -> usize {
        (self.page_size - u32::from(self.reserved)) as usize
    }

    /// The page count, where the header's own can be believed; otherwise the file's size counts.
    pub fn stated_page_count(&self) -> Option<u32> {
        (self.page_count != 0 && self.version_valid_for == self.change_counter)
            .then_some(self.page_count)
    }

    /// True when the file keeps a write-ahead log instead of a rollback journal.
    pub fn is_wal(&self) -> bool {
        self.read_version == 2
    }

    /// Bytes of a page, by the header alone; `None` where they cannot be. Only bytes 16 and 17 are
    /// looked at.
    pub fn stated_page_size(header: &[u8; Self::SIZE]) -> Option<u32> {
        let size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65536,
            size => u32::from(size),
        };
        (size >= 512 && size.is_power_of_two()).then_some(size)
    }

    /// True when the file keeps pointer-map pages.
    pub fn is_auto_vacuum(&self) -> bool {
        self.largest_root != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_it_reads() {
        for page_size in [512, 4096, 65536] {
            let mut header = FileHeader::create(page_size);
            header.reserved = 32;
            header.user_version = -7;
            header.freelist_trunk = Pgno::new(9);
            header.unused[3] = 5;
            header.text_encoding = TextEncoding::Utf16Be;
            let mut bytes = [0; 100];
            header.write(&mut bytes);
            assert_eq!(FileHeader::parse(&bytes), Ok(header));
        }
    }

    #[test]
    fn each_broken_field_is_named() {
        let mut good = [0; 100];
        FileHeader::create(512).write(&mut good);
        let check = |offset: usize, value: u8, why: &str| {
            let mut bytes = good;
            bytes[offset] = value;
            let error = FileHeader::parse(&bytes).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        };
        check(3, b'x', "magic");
        check(16, 3, "page size");
        check(17, 7, "page size");
        check(20, 33, "reserves too much");
        check(21, 63, "payload fractions");
        check(59, 4, "text encoding");
        check(47, 5, "schema format");
    }

    #[test]
    fn the_page_count_is_believed_only_when_it_is_current() {
        let mut header = FileHeader::create(4096);
        assert_eq!(header.stated_page_count(), None);
        header.page_count = 3;
        assert_eq!(header.stated_page_count(), Some(3));
        header.change_counter = 1;
        assert_eq!(header.stated_page_count(), None);
    }
}
