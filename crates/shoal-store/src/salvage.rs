//! Salvage: rows of a damaged file, read page by page without trust in any of them.
//!
//! Every page is visited at most once, as part of one tree, and every overflow page belongs to one
//! payload at most; so circles end, and the work is bounded by the size of the file. Overlapping
//! cells, beyond the bytes of their page, are left out. Of a sealed file only pages count that its
//! codec takes for authentic; the others are told by number ([`Salvage::refused`]).

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use shoal_format::overflow::OverflowPage;
use shoal_format::{ByteOrder, FileHeader, Page, PageKind, Payload, Pgno, Record, ValueRef, utf16};
use shoal_vfs::{File, OpenMode, Vfs};

use crate::{Access, Error, Mode, Options, PageCodec, Refused, Store, Transaction};

/// A damaged database file, open for reading.
pub struct Salvage {
    file: Box<dyn File>,
    /// The state of a readable write-ahead log; `None` without one.
    reads: Option<Transaction>,
    /// `None` where the header is damaged.
    header: Option<FileHeader>,
    page_size: u32,
    usable: usize,
    page_count: u32,
    utf16: Option<ByteOrder>,
    sealed: Option<Sealed>,
}

/// The codec of a sealed file, and the pages found to be no pages of it.
struct Sealed {
    codec: Arc<dyn PageCodec>,
    refused: Mutex<BTreeMap<Pgno, Refused>>,
}

impl Sealed {
    /// Replaces a stored page by its plain form; by zeroes where it is not authentic.
    fn decode(&self, pgno: Pgno, bytes: &mut [u8]) {
        if let Err(refused) = self.codec.decode(pgno, bytes) {
            bytes.fill(0);
            let mut all = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(pgno, refused);
        }
    }

    /// True for pages with content of the codec's own.
    fn owns(&self, pgno: Pgno) -> bool {
        pgno != Pgno::FIRST && pgno.get() <= self.codec.own_pages() + 1
    }
}

/// A row of a table, or an entry of an index, as far as its values can be read.
#[derive(Clone, Copy, Debug)]
pub struct SalvagedRow<'a> {
    /// The page of the row.
    pub page: Pgno,
    /// `None` for index entries, rows of tables without rowid among them.
    pub rowid: Option<i64>,
    /// The values up to the first damaged one, text in UTF-8.
    pub values: &'a [ValueRef<'a>],
}

/// A set of pages.
#[derive(Clone, Debug)]
pub struct PageSet {
    bits: Vec<u64>,
}

impl PageSet {
    /// An empty set of pages of a file with so many.
    pub(crate) fn of_file(page_count: u32) -> PageSet {
        PageSet { bits: vec![0; page_count as usize / 64 + 1] }
    }

    /// Makes room for the pages of a file with so many.
    pub(crate) fn grow(&mut self, page_count: u32) {
        let words = page_count as usize / 64 + 1;
        self.bits.resize(self.bits.len().max(words), 0);
    }

    /// Adds a page; false for one in the set, or past the end of the file.
    pub fn insert(&mut self, page: Pgno) -> bool {
        let (word, bit) = (page.get() as usize / 64, 1 << (page.get() % 64));
        match self.bits.get_mut(word) {
            Some(bits) if *bits & bit == 0 => {
                *bits |= bit;
                true
            }
            _ => false,
        }
    }

    /// Takes a page away.
    pub(crate) fn remove(&mut self, page: Pgno) {
        if let Some(bits) = self.bits.get_mut(page.get() as usize / 64) {
            *bits &= !(1 << (page.get() % 64));
        }
    }

    /// Adds the pages of another set; false where a page is in both.
    pub(crate) fn unite(&mut self, other: &PageSet) -> bool {
        let words = self.bits.len().max(other.bits.len());
        self.bits.resize(words, 0);
        self.bits.iter_mut().zip(&other.bits).fold(true, |apart, (mine, theirs)| {
            let apart = apart && *mine & theirs == 0;
            *mine |= theirs;
            apart
        })
    }

    /// True for pages in the set.
    pub fn contains(&self, page: Pgno) -> bool {
        let (word, bit) = (page.get() as usize / 64, 1_u64 << (page.get() % 64));
        self.bits.get(word).is_some_and(|bits| bits & bit != 0)
    }
}

impl Salvage {
    /// Opens the file at `path`. With a damaged header the size of pages is the one most pages
    /// look well by.
    ///
    /// # Errors
    /// [`Error::Vfs`]; [`Error::HotJournal`] where a crashed transaction is to be undone first;
    /// [`Error::NotADatabase`] for a file without any page of a b-tree.
    pub fn open(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<Salvage, Error> {
        Salvage::open_by(vfs, path, None)
    }

    /// Opens a sealed file. The bytes of its pages are `page_size` where the keys of the file tell,
    /// and else as its beginning says.
    ///
    /// With a damaged page 1, the encoding of texts and the numbers of the application are of its
    /// clear bytes, for which nothing vouches.
    ///
    /// # Errors
    /// As [`Salvage::open`]; [`Error::NotADatabase`] where nothing tells the size of pages.
    pub fn open_sealed(
        vfs: &Arc<dyn Vfs>,
        path: &Path,
        codec: Arc<dyn PageCodec>,
        page_size: Option<u32>,
    ) -> Result<Salvage, Error> {
        Salvage::open_by(vfs, path, Some((codec, page_size)))
    }

    fn open_by(
        vfs: &Arc<dyn Vfs>,
        path: &Path,
        sealed: Option<(Arc<dyn PageCodec>, Option<u32>)>,
    ) -> Result<Salvage, Error> {
        let codec = sealed.as_ref().map(|(codec, _)| Arc::clone(codec));
        // A log is read by the rules; other faults do not matter yet.
        let options = Options { codec, ..Options::new(Access::ReadOnly) };
        let store = match Store::open_with(Arc::clone(vfs), path, options) {
            Err(error @ (Error::HotJournal { .. } | Error::Vfs(_))) => return Err(error),
            other => other.ok(),
        };
        let reads = store.and_then(|store| store.begin(Mode::Read).ok());
        let reads = reads.filter(|reads| reads.snapshot.log.is_some());
        let file = vfs.open(path, OpenMode::ReadOnly)?;
        let mut first = [0; FileHeader::SIZE];
        file.read_at(&mut first, 0)?;
        let size = file.size()?;
        let none = || Error::NotADatabase { path: path.to_path_buf() };
        let (header, page_size, usable) = match (&reads, &sealed) {
            (Some(reads), _) => {
                let header = reads.file.header;
                (Some(header), header.page_size, header.usable())
            }
            (None, Some((codec, page_size))) => {
                let stated = || codec.shape(&first).map(|shape| shape.page_size);
                let page_size = page_size.or_else(stated).ok_or_else(none)?;
                sealed_header(&*file, &**codec, page_size, &first)?
            }
            (None, None) => {
                let parsed = FileHeader::parse(&first).ok();
                let header = parsed.filter(|_| FileHeader::is_database(&first));
                match &header {
                    Some(known) => (header, known.page_size, known.usable()),
                    None => {
                        let page_size = guess(&*file, size)?.ok_or_else(none)?;
                        (header, page_size, page_size as usize)
                    }
                }
            }
        };
        let in_file = size.div_ceil(u64::from(page_size)).min(u64::from(Pgno::MAX));
        let in_file = u32::try_from(in_file).expect("it is at most Pgno::MAX");
        let in_log = reads.as_ref().map_or(0, |reads| reads.file.page_count);
        let utf16 = header.as_ref().and_then(|header| header.text_encoding.utf16());
        let page_count = in_file.max(in_log);
        let sealed = sealed.map(|(codec, _)| Sealed { codec, refused: Mutex::default() });
        Ok(Salvage { file, reads, header, page_size, usable, page_count, utf16, sealed })
    }

    /// The pages read so far that are not as somebody with the key wrote them, and why; none in a
    /// file that is not sealed.
    pub fn refused(&self) -> Vec<(Pgno, Refused)> {
        let Some(sealed) = &self.sealed else { return Vec::new() };
        let all = sealed.refused.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(pgno, refused)| (*pgno, refused.clone())).collect()
    }

    /// The file's header; `None` for a damaged one.
    pub fn header(&self) -> Option<&FileHeader> {
        self.header.as_ref()
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Pages of the file, whatever its header says.
    pub fn page_count(&self) -> u32 {
        self.page_count
    }

    /// An empty set of pages of this file.
    pub fn page_set(&self) -> PageSet {
        PageSet::of_file(self.page_count)
    }

    /// All pages, in order.
    pub fn pages(&self) -> impl Iterator<Item = Pgno> + use<> {
        (1..=self.page_count).filter_map(Pgno::new)
    }

    /// The pages of the freelist, up to its first damaged page.
    ///
    /// # Errors
    /// [`Error::Vfs`].
    pub fn freelist(&self) -> Result<PageSet, Error> {
        let mut set = self.page_set();
        let mut next = self.header.as_ref().and_then(|header| header.freelist_trunk);
        let mut bytes = Vec::new();
        while let Some(pgno) = next.filter(|&pgno| set.insert(pgno)) {
            self.read(pgno, &mut bytes)?;
            let Ok(trunk) = shoal_format::freelist::Trunk::new(&bytes, pgno, self.usable) else {
                break;
            };
            next = trunk.next;
            for index in 0..trunk.leaf_count() {
                if let Ok(leaf) = trunk.leaf(index) {
                    set.insert(leaf);
                }
            }
        }
        Ok(set)
    }

    /// The kind of a page with the look of a b-tree's page; `None` for any other.
    ///
    /// # Errors
    /// [`Error::Vfs`].
    pub fn kind(&self, pgno: Pgno) -> Result<Option<PageKind>, Error> {
        let mut bytes = Vec::new();
        self.read(pgno, &mut bytes)?;
        Ok(self.view(&mut bytes, pgno).map(|page| page.kind()))
    }

    /// The pages below an interior page; none for any other.
    ///
    /// # Errors
    /// [`Error::Vfs`].
    pub fn children(&self, pgno: Pgno) -> Result<Vec<Pgno>, Error> {
        let mut bytes = Vec::new();
        self.read(pgno, &mut bytes)?;
        let Some(page) = self.view(&mut bytes, pgno) else { return Ok(Vec::new()) };
        if page.kind().is_leaf() {
            return Ok(Vec::new());
        }
        let child = |index| page.child(index).ok();
        let inside = |child: &Pgno| child.get() <= self.page_count;
        Ok((0..=page.cell_count()).filter_map(child).filter(inside).collect())
    }

    /// Gives the rows of a tree, and adds its pages to `seen`; pages seen before are passed over.
    /// A page of the other kind of tree, and the pages below, belong to others.
    ///
    /// # Errors
    /// [`Error::Vfs`]; errors of `give`.
    pub fn tree<E: From<Error>>(
        &self,
        root: Pgno,
        (seen, chained): (&mut PageSet, &mut PageSet),
        give: &mut impl FnMut(SalvagedRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_table = self.kind(root)?.map(PageKind::is_table);
        let mut waiting = vec![root];
        while let Some(pgno) = waiting.pop() {
            let kind = self.kind(pgno)?;
            if kind.map(PageKind::is_table) != is_table || kind.is_none() || !seen.insert(pgno) {
                continue;
            }
            self.rows(pgno, chained, give)?;
            let mut children = self.children(pgno)?;
            children.reverse();
            waiting.append(&mut children);
        }
        Ok(())
    }

    /// Gives the rows of one page. Pages of overflowing payloads are added to `chained`.
    ///
    /// # Errors
    /// [`Error::Vfs`]; errors of `give`.
    pub fn rows<E: From<Error>>(
        &self,
        pgno: Pgno,
        chained: &mut PageSet,
        give: &mut impl FnMut(SalvagedRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut bytes = Vec::new();
        self.read(pgno, &mut bytes)?;
        let Some(page) = self.view(&mut bytes, pgno) else { return Ok(()) };
        if page.kind() == PageKind::TableInterior {
            return Ok(());
        }
        let (mut payload_bytes, mut decoded) = (Vec::new(), Vec::new());
        let mut taken = 0;
        for index in 0..page.cell_count() {
            let cell = match page.kind() {
                PageKind::TableLeaf => {
                    page.table_leaf(index).map(|cell| (Some(cell.rowid), cell.payload, cell.size))
                }
                _ => page.index(index).map(|cell| (None, cell.payload, cell.size)),
            };
            let Ok((rowid, payload, size)) = cell else { continue };
            taken += size;
            if taken > self.usable {
                break;
            }
            let mut record = payload.local;
            if payload.overflow.is_some() {
                self.chain(payload, chained, &mut payload_bytes)?;
                record = &payload_bytes;
            }
            let Ok(parsed) = Record::new(record) else { continue };
            let values: Vec<ValueRef<'_>> = parsed.values().map_while(Result::ok).collect();
            let values = match self.utf16 {
                None => values,
                Some(order) => in_utf8(&values, order, &mut decoded),
            };
            if !values.is_empty() {
                give(SalvagedRow { page: pgno, rowid, values: &values })?;
            }
        }
        Ok(())
    }

    /// Puts a payload together, up to the first damaged page of the chain.
    fn chain(
        &self,
        payload: Payload<'_>,
        chained: &mut PageSet,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        out.clear();
        out.extend_from_slice(payload.local);
        let mut next = payload.overflow;
        let mut bytes = Vec::new();
        while let Some(pgno) = next.filter(|_| out.len() < payload.len) {
            if !chained.insert(pgno) {
                break;
            }
            self.read(pgno, &mut bytes)?;
            let Ok(page) = OverflowPage::new(&bytes, pgno, self.usable) else { break };
            let wanted = (payload.len - out.len()).min(page.content.len());
            out.extend_from_slice(&page.content[..wanted]);
            next = page.next;
        }
        Ok(())
    }

    fn read(&self, pgno: Pgno, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.clear();
        bytes.resize(self.page_size as usize, 0);
        let log = self.reads.as_ref().and_then(|reads| reads.snapshot.log.as_ref());
        match log {
            Some(log) if log.read(pgno, bytes)? => {}
            _ => {
                self.file.read_at(bytes, pgno.offset(self.page_size))?;
            }
        }
        if let Some(sealed) = &self.sealed
            && pgno != Pgno::lock_page(self.page_size)
        {
            sealed.decode(pgno, bytes);
        }
        Ok(())
    }

    /// True for pages of an auto-vacuum file with the parents of the pages behind.
    fn is_pointer_map(&self, pgno: Pgno) -> bool {
        let Some(header) = self.header.filter(FileHeader::is_auto_vacuum) else { return false };
        let each = u32::try_from(header.usable() / 5 + 1).unwrap_or(u32::MAX);
        pgno.get() >= 2 && (pgno.get() - 2).is_multiple_of(each)
    }

    /// A page of a b-tree. A count of cells past the page's room becomes the most there is room
    /// for.
    fn view<'b>(&self, bytes: &'b mut [u8], pgno: Pgno) -> Option<Page<'b>> {
        let start = shoal_format::page::header_start(pgno);
        let kind = PageKind::from_byte(*bytes.get(start)?)?;
        let is_own = self.sealed.as_ref().is_some_and(|sealed| sealed.owns(pgno));
        if is_own || pgno == Pgno::lock_page(self.page_size) || self.is_pointer_map(pgno) {
            return None;
        }
        if Page::new(bytes, pgno, self.usable).is_err() {
            // A pointer and the least cell are six bytes.
            let most = (self.usable - start - kind.header_size()) / 6;
            let count = u16::try_from(most).unwrap_or(u16::MAX).to_be_bytes();
            bytes.get_mut(start + 3..start + 5)?.copy_from_slice(&count);
        }
        Page::new(bytes, pgno, self.usable).ok()
    }
}

/// The header of a sealed file with pages of `page_size`, and the usable bytes of a page: those of
/// an authentic page 1, or else the clear bytes with the codec's own room.
fn sealed_header(
    file: &dyn File,
    codec: &dyn PageCodec,
    page_size: u32,
    first: &[u8; FileHeader::SIZE],
) -> Result<(Option<FileHeader>, u32, usize), Error> {
    let mut page = vec![0; page_size as usize];
    file.read_at(&mut page, 0)?;
    let header = |bytes: &[u8]| {
        let bytes: &[u8; FileHeader::SIZE] = bytes.first_chunk()?;
        let header = FileHeader::parse(bytes).ok()?;
        let is_of_file = header.page_size == page_size && FileHeader::is_database(bytes);
        is_of_file.then_some(header)
    };
    if codec.decode(Pgno::FIRST, &mut page).is_ok()
        && let Some(header) = header(&page)
    {
        return Ok((Some(header), page_size, header.usable()));
    }
    let clear = codec.clear_header(first);
    let usable = page_size as usize - usize::from(codec.reserved());
    Ok((clear.and_then(|clear| header(&clear)), page_size, usable))
}

/// The page size by which most pages of a file look like a b-tree's; `None` without any.
fn guess(file: &dyn File, size: u64) -> Result<Option<u32>, Error> {
    /// Pages looked at for each size.
    const LOOKS: u64 = 512;
    let mut best = None;
    for shift in 9..=16 {
        let page_size = 1_u32 << shift;
        let pages = size / u64::from(page_size);
        let mut bytes = vec![0; page_size as usize];
        let mut well = 0_u64;
        for number in 1..=pages.min(LOOKS) {
            let Some(pgno) = u32::try_from(number).ok().and_then(Pgno::new) else { break };
            file.read_at(&mut bytes, pgno.offset(page_size))?;
            let is_well = |page: Page<'_>| page.cell_count() > 0 && page.check().is_ok();
            well += u64::from(Page::new(&bytes, pgno, bytes.len()).is_ok_and(is_well));
        }
        // Larger pages are fewer: compared are the bytes on sound pages.
        let bytes = well * u64::from(page_size);
        if bytes > best.map_or(0, |(most, _)| most) {
            best = Some((bytes, page_size));
        }
    }
    Ok(best.map(|(_, page_size)| page_size))
}

/// The same values with text in UTF-8, kept in `decoded`.
fn in_utf8<'v>(
    values: &[ValueRef<'v>],
    order: ByteOrder,
    decoded: &'v mut Vec<u8>,
) -> Vec<ValueRef<'v>> {
    decoded.clear();
    let mut ends = Vec::new();
    for value in values {
        if let ValueRef::Text(text) = value {
            utf16::decode(text, order, decoded);
        }
        ends.push(decoded.len());
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let texts = starts.zip(&ends).map(|(start, &end)| &decoded[start..end]);
    let value = |(value, text)| match value {
        &ValueRef::Text(_) => ValueRef::Text(text),
        other => *other,
    };
    values.iter().zip(texts).map(value).collect()
}

impl fmt::Debug for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salvage")
            .field("page_size", &self.page_size)
            .field("page_count", &self.page_count)
            .finish_non_exhaustive()
    }
}
