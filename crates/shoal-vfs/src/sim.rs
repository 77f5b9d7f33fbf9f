//! A file system recording every call, failing on request, and able to show every state of the disk
//! possible after a crash at any point.
//!
//! The model of the disk: a file's bytes are safe once `sync` returned; each later write or
//! truncation may be kept, lost or torn into sectors, independently of the others. A name created
//! or deleted is safe once its folder was synced; until then any number of the name's last changes
//! may be missing. Only a sync orders anything. Shared blocks are memory: a crash of the machine
//! leaves nothing of them, and killing a program leaves them as they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::chance::SplitMix;
use crate::locks::{FileLocks, HandleLock};
use crate::mem::{SharedBlocks, forged_error, read_from, share_block, write_into};
use crate::shared::SharedBlock;
use crate::{ByteLock, File, LockLevel, OpenMode, Vfs, VfsError};

/// The content of a disk: every file's bytes by path.
pub type Image = BTreeMap<PathBuf, Vec<u8>>;

/// Bytes of a sector: sectors reach the disk whole or not at all.
const SECTOR: u64 = 512;

/// One recorded call, with everything needed to do the call again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A file came to be.
    Create {
        /// Its path.
        path: PathBuf,
        /// Its number; a path deleted and created again has a new one.
        file: usize,
    },
    /// A file's name went.
    Delete {
        /// Its path.
        path: PathBuf,
    },
    /// Bytes were written.
    Write {
        /// The file's number.
        file: usize,
        /// Where.
        offset: u64,
        /// The bytes written.
        bytes: Vec<u8>,
    },
    /// A file was cut or extended.
    Truncate {
        /// The file's number.
        file: usize,
        /// Its new size in bytes.
        len: u64,
    },
    /// A file was made durable.
    Sync {
        /// The file's number.
        file: usize,
    },
    /// A folder's names were made durable.
    SyncDir {
        /// The folder.
        path: PathBuf,
    },
    /// The name of a call without effect on the disk.
    Read(&'static str),
    /// A call failed on purpose; any effect of the call is recorded before.
    Failed(&'static str),
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An I/O error; a write may have done the first half, by sectors.
    Io,
    /// No space left, for calls able to report that; an I/O error for others.
    NoSpace,
}

/// The calls to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first call to fail, counted from 0 over the life of the vfs.
    pub call: usize,
    /// True when every later call fails too.
    pub stays: bool,
    /// How.
    pub kind: FaultKind,
}

/// The simulated file system. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct SimVfs {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<PathBuf, usize>,
    files: Vec<SimFileState>,
    /// How many of `files` were there at the start.
    start: BTreeMap<PathBuf, usize>,
    start_bytes: Vec<Vec<u8>>,
    events: Vec<Event>,
    calls: usize,
    /// `calls` when each event was recorded.
    event_calls: Vec<usize>,
    fault: Option<Fault>,
    kill_at: Option<usize>,
    killed: Vec<Image>,
}

#[derive(Debug, Default)]
struct SimFileState {
    bytes: Vec<u8>,
    blocks: SharedBlocks,
    locks: FileLocks,
}

impl SimFileState {
    fn new(bytes: Vec<u8>) -> SimFileState {
        SimFileState { bytes, ..SimFileState::default() }
    }

    /// The file's bytes as programs see them now, shared blocks included.
    fn visible(&self) -> Vec<u8> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        match blocks.is_empty() {
            true => self.bytes.clone(),
            false => blocks.iter().flat_map(SharedBlock::bytes).collect(),
        }
    }
}

impl SimVfs {
    /// A disk without files.
    pub fn new() -> SimVfs {
        SimVfs::default()
    }

    /// A disk durably holding `image`.
    pub fn from_image(image: &Image) -> SimVfs {
        let vfs = SimVfs::new();
        {
            let mut state = vfs.state();
            for (path, bytes) in image {
                let number = state.files.len();
                state.files.push(SimFileState::new(bytes.clone()));
                state.start_bytes.push(bytes.clone());
                state.names.insert(path.clone(), number);
            }
            state.start = state.names.clone();
        }
        vfs
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes calls fail from now on, or none for `None`.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// Returns the calls recorded so far.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    /// Returns the disk as programs see it now: no crash, everything kept. Killing the program
    /// leaves the same bytes.
    pub fn image(&self) -> Image {
        self.state().visible()
    }

    /// Keeps the disk as killing the program at call number `call` (counted from 0) would leave it:
    /// once before the call, and for a write once more halfway through.
    pub fn kill_at(&self, call: usize) {
        self.state().kill_at = Some(call);
    }

    /// The disks kept for [`SimVfs::kill_at`]: none when the call was not reached.
    pub fn killed(&self) -> Vec<Image> {
        self.state().killed.clone()
    }

    /// Returns one of the disks possible after a crash following the first `calls` calls.
    ///
    /// `seed` chooses among unsynced changes: 0 keeps none, 1 keeps all, any other decides by
    /// chance.
    pub fn image_after_crash(&self, calls: usize, seed: u64) -> Image {
        let state = self.state();
        let mut disk = Disk {
            names: state.start.iter().map(|(path, &file)| (path.clone(), Some(file))).collect(),
            pending_names: Vec::new(),
            files: state.start_bytes.iter().cloned().map(DiskFile::durable).collect(),
        };
        for (event, &call) in state.events.iter().zip(&state.event_calls) {
            if call > calls {
                break;
            }
            disk.apply(event);
        }
        disk.crash(Luck::new(seed))
    }
}

impl State {
    fn visible(&self) -> Image {
        let visible =
            |(path, &number): (&PathBuf, &usize)| (path.clone(), self.files[number].visible());
        self.names.iter().map(visible).collect()
    }

    /// Counts a call; an error when the call is the one to fail.
    fn call(&mut self, operation: &'static str, path: &Path) -> Result<(), VfsError> {
        let number = self.calls;
        self.calls += 1;
        if self.kill_at == Some(number) {
            let image = self.visible();
            self.killed.push(image);
        }
        let Some(fault) = self.fault else { return Ok(()) };
        if number != fault.call && !(fault.stays && number > fault.call) {
            return Ok(());
        }
        self.record(Event::Failed(operation));
        let full = matches!(operation, "write" | "open" | "truncate" | "sync");
        Err(match fault.kind {
            FaultKind::NoSpace if full => VfsError::NoSpace { path: path.to_path_buf() },
            _ => forged_error(operation, path),
        })
    }

    fn record(&mut self, event: Event) {
        self.events.push(event);
        self.event_calls.push(self.calls);
    }
}

impl Vfs for SimVfs {
    fn open(&self, path: &Path, mode: OpenMode<'_>) -> Result<Box<dyn File>, VfsError> {
        let mut state = self.state();
        state.call("open", path)?;
        let creates = matches!(mode, OpenMode::Create | OpenMode::CreateLike(_));
        let number = match state.names.get(path) {
            Some(&number) => {
                state.record(Event::Read("open"));
                number
            }
            None if creates => {
                let number = state.files.len();
                state.files.push(SimFileState::default());
                state.names.insert(path.to_path_buf(), number);
                state.record(Event::Create { path: path.to_path_buf(), file: number });
                number
            }
            None => return Err(VfsError::NotFound { path: path.to_path_buf() }),
        };
        let lock = HandleLock::new(state.files[number].locks.clone());
        let writable = mode != OpenMode::ReadOnly;
        Ok(Box::new(SimFile {
            vfs: self.clone(),
            number,
            path: path.to_path_buf(),
            lock,
            writable,
        }))
    }

    fn delete(&self, path: &Path, sync_dir: bool) -> Result<(), VfsError> {
        let mut state = self.state();
        state.call("delete", path)?;
        if state.names.remove(path).is_none() {
            return Err(VfsError::NotFound { path: path.to_path_buf() });
        }
        state.record(Event::Delete { path: path.to_path_buf() });
        drop(state);
        match path.parent() {
            Some(folder) if sync_dir => self.sync_dir(folder),
            _ => Ok(()),
        }
    }

    fn size(&self, path: &Path) -> Result<Option<u64>, VfsError> {
        let mut state = self.state();
        state.call("look at", path)?;
        state.record(Event::Read("size"));
        Ok(state.names.get(path).map(|&number| state.files[number].bytes.len() as u64))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), VfsError> {
        let mut state = self.state();
        state.call("sync", path)?;
        state.record(Event::SyncDir { path: path.to_path_buf() });
        Ok(())
    }
}

#[derive(Debug)]
struct SimFile {
    vfs: SimVfs,
    number: usize,
    path: PathBuf,
    lock: HandleLock,
    writable: bool,
}

impl SimFile {
    fn require_writable(&self) -> Result<(), VfsError> {
        if self.writable {
            return Ok(());
        }
        Err(VfsError::PermissionDenied { path: self.path.clone() })
    }

    fn write(&self, state: &mut State, bytes: &[u8], offset: u64) -> Result<(), VfsError> {
        write_into(&mut state.files[self.number].bytes, bytes, offset)
            .ok_or_else(|| VfsError::NoSpace { path: self.path.clone() })?;
        state.record(Event::Write { file: self.number, offset, bytes: bytes.to_vec() });
        Ok(())
    }
}

impl File for SimFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, VfsError> {
        let mut state = self.vfs.state();
        state.call("read", &self.path)?;
        state.record(Event::Read("read"));
        Ok(read_from(&state.files[self.number].bytes, bytes, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), VfsError> {
        self.require_writable()?;
        let mut state = self.vfs.state();
        if let Err(error) = state.call("write", &self.path) {
            // A failed write may have reached the disk in part: the first half is written.
            let half = bytes.len() / 2 / 512 * 512;
            self.write(&mut state, &bytes[..half], offset)?;
            return Err(error);
        }
        if state.killed.len() == 1 && state.kill_at.is_some_and(|call| call + 1 == state.calls) {
            let mut image = state.visible();
            let target = image.entry(self.path.clone()).or_default();
            write_sector(target, &bytes[..bytes.len() / 2], offset);
            state.killed.push(image);
        }
        self.write(&mut state, bytes, offset)
    }

    fn truncate(&self, len: u64) -> Result<(), VfsError> {
        self.require_writable()?;
        let mut state = self.vfs.state();
        state.call("truncate", &self.path)?;
        let size =
            usize::try_from(len).map_err(|_| VfsError::NoSpace { path: self.path.clone() })?;
        let file = &mut state.files[self.number];
        file.blocks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        file.bytes.resize(size, 0);
        state.record(Event::Truncate { file: self.number, len });
        Ok(())
    }

    fn sync(&self) -> Result<(), VfsError> {
        let mut state = self.vfs.state();
        state.call("sync", &self.path)?;
        state.record(Event::Sync { file: self.number });
        Ok(())
    }

    fn size(&self) -> Result<u64, VfsError> {
        let mut state = self.vfs.state();
        state.call("look at", &self.path)?;
        state.record(Event::Read("size"));
        Ok(state.files[self.number].bytes.len() as u64)
    }

    fn lock(&self, level: LockLevel) -> Result<bool, VfsError> {
        if level > LockLevel::Shared {
            self.require_writable()?;
        }
        let mut state = self.vfs.state();
        state.call("lock", &self.path)?;
        state.record(Event::Read("lock"));
        Ok(self.lock.lock(level))
    }

    fn unlock(&self, level: LockLevel) -> Result<(), VfsError> {
        self.lock.unlock(level);
        Ok(())
    }

    fn is_reserved_elsewhere(&self) -> Result<bool, VfsError> {
        let mut state = self.vfs.state();
        state.call("look at the locks of", &self.path)?;
        state.record(Event::Read("check locks"));
        Ok(self.lock.is_reserved_elsewhere())
    }

    /// True while the name still stands for this file.
    fn is_at(&self, path: &Path) -> Result<bool, VfsError> {
        let mut state = self.vfs.state();
        state.call("look at", path)?;
        state.record(Event::Read("look at"));
        Ok(state.names.get(path) == Some(&self.number))
    }

    fn lock_bytes(&self, start: u64, len: u64, lock: ByteLock) -> Result<Option<bool>, VfsError> {
        if lock == ByteLock::None {
            return Ok(Some(self.lock.lock_bytes(start, len, lock)));
        }
        let mut state = self.vfs.state();
        state.call("lock", &self.path)?;
        state.record(Event::Read("lock bytes"));
        Ok(Some(self.lock.lock_bytes(start, len, lock)))
    }

    fn share(&self, number: usize, grow: bool) -> Result<Option<SharedBlock>, VfsError> {
        let mut state = self.vfs.state();
        state.call("share", &self.path)?;
        state.record(Event::Read("share"));
        let file = &state.files[self.number];
        Ok(share_block(&file.blocks, &file.bytes, number, grow))
    }

    fn is_locked_elsewhere(&self, place: u64) -> Result<bool, VfsError> {
        let mut state = self.vfs.state();
        state.call("look at the locks of", &self.path)?;
        state.record(Event::Read("check locks"));
        Ok(self.lock.is_locked_elsewhere(place))
    }
}

/// The durable state of a disk, and the changes still pending.
struct Disk {
    names: BTreeMap<PathBuf, Option<usize>>,
    pending_names: Vec<(PathBuf, Option<usize>)>,
    files: Vec<DiskFile>,
}

#[derive(Default)]
struct DiskFile {
    bytes: Vec<u8>,
    pending: Vec<Pending>,
}

enum Pending {
    Write { offset: u64, bytes: Vec<u8> },
    Truncate { len: u64 },
}

impl DiskFile {
    fn durable(bytes: Vec<u8>) -> DiskFile {
        DiskFile { bytes, pending: Vec::new() }
    }

    fn settle(&mut self, luck: &mut Luck) {
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Truncate { len } if luck.keeps() => {
                    self.bytes.resize(usize::try_from(len).unwrap_or(self.bytes.len()), 0);
                }
                Pending::Truncate { .. } => {}
                Pending::Write { offset, bytes } => match luck.fate() {
                    Fate::Lost => {}
                    Fate::Kept => write_sector(&mut self.bytes, &bytes, offset),
                    Fate::Torn => {
                        let mut at = 0;
                        while at < bytes.len() {
                            let place = offset + at as u64;
                            let room = usize::try_from(SECTOR - place % SECTOR).unwrap_or(512);
                            let end = bytes.len().min(at + room);
                            if luck.keeps() {
                                write_sector(&mut self.bytes, &bytes[at..end], place);
                            }
                            at = end;
                        }
                    }
                },
            }
        }
    }
}

fn write_sector(target: &mut Vec<u8>, bytes: &[u8], offset: u64) {
    write_into(target, bytes, offset).expect("the same write succeeded when it was recorded");
}

impl Disk {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Create { path, file } => {
                self.files.resize_with(file + 1, DiskFile::default);
                self.pending_names.push((path.clone(), Some(*file)));
            }
            Event::Delete { path } => self.pending_names.push((path.clone(), None)),
            Event::Write { file, offset, bytes } => {
                let pending = Pending::Write { offset: *offset, bytes: bytes.clone() };
                self.files[*file].pending.push(pending);
            }
            Event::Truncate { file, len } => {
                self.files[*file].pending.push(Pending::Truncate { len: *len });
            }
            Event::Sync { file } => self.files[*file].settle(&mut Luck::All),
            Event::SyncDir { path } => {
                let folder = Some(path.as_path());
                let names = std::mem::take(&mut self.pending_names);
                for (name, file) in names {
                    if name.parent() == folder {
                        self.names.insert(name, file);
                    } else {
                        self.pending_names.push((name, file));
                    }
                }
            }
            Event::Read(_) | Event::Failed(_) => {}
        }
    }

    fn crash(mut self, mut luck: Luck) -> Image {
        let mut cut: Vec<PathBuf> = Vec::new();
        for (name, file) in std::mem::take(&mut self.pending_names) {
            // Changes of one name are lost from the end: after the first missing one all later ones
            // are too.
            if cut.contains(&name) || !luck.keeps() {
                cut.push(name);
            } else {
                self.names.insert(name, file);
            }
        }
        for file in &mut self.files {
            file.settle(&mut luck);
        }
        self.names
            .into_iter()
            .filter_map(|(name, file)| Some((name, self.files[file?].bytes.clone())))
            .collect()
    }
}

enum Luck {
    None,
    All,
    Chance(SplitMix),
}

enum Fate {
    Lost,
    Kept,
    Torn,
}

impl Luck {
    fn new(seed: u64) -> Luck {
        match seed {
            0 => Luck::None,
            1 => Luck::All,
            _ => Luck::Chance(SplitMix { state: seed }),
        }
    }

    fn keeps(&mut self) -> bool {
        match self {
            Luck::None => false,
            Luck::All => true,
            Luck::Chance(mix) => mix.below(2) == 0,
        }
    }

    fn fate(&mut self) -> Fate {
        match self {
            Luck::None => Fate::Lost,
            Luck::All => Fate::Kept,
            Luck::Chance(mix) => match mix.below(3) {
                0 => Fate::Lost,
                1 => Fate::Kept,
                _ => Fate::Torn,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> PathBuf {
        PathBuf::from("folder/file")
    }

    #[test]
    fn what_was_synced_survives_and_the_rest_may_not() {
        let vfs = SimVfs::new();
        let file = vfs.open(&path(), OpenMode::Create).unwrap();
        file.write_at(&[1; 1024], 0).unwrap();
        file.sync().unwrap();
        let before_dir = vfs.calls();
        vfs.sync_dir(Path::new("folder")).unwrap();
        let synced = vfs.calls();
        file.write_at(&[2; 1024], 0).unwrap();
        let written = vfs.calls();
        let bytes = |calls, seed| vfs.image_after_crash(calls, seed).get(&path()).cloned();
        assert_eq!(bytes(before_dir, 0), None);
        assert_eq!(bytes(synced, 0), Some(vec![1; 1024]));
        assert_eq!(bytes(written, 0), Some(vec![1; 1024]));
        assert_eq!(bytes(written, 1), Some(vec![2; 1024]));
        let torn = (2..40).filter_map(|seed| bytes(written, seed)).any(|bytes| {
            bytes[..512].iter().all(|&byte| byte == 1) && bytes[512..].iter().all(|&b| b == 2)
        });
        assert!(torn);
        assert_eq!(vfs.image()[&path()], vec![2; 1024]);
    }

    #[test]
    fn a_deleted_name_may_come_back_until_its_folder_is_synced() {
        let start = Image::from([(path(), vec![7])]);
        let vfs = SimVfs::from_image(&start);
        vfs.delete(&path(), false).unwrap();
        assert_eq!(vfs.image_after_crash(vfs.calls(), 0), start);
        assert_eq!(vfs.image_after_crash(vfs.calls(), 1), Image::new());
        vfs.sync_dir(Path::new("folder")).unwrap();
        assert_eq!(vfs.image_after_crash(vfs.calls(), 0), Image::new());
    }

    #[test]
    fn the_call_it_is_told_to_fail_fails() {
        let vfs = SimVfs::new();
        let file = vfs.open(&path(), OpenMode::Create).unwrap();
        let next = vfs.calls();
        vfs.set_fault(Some(Fault { call: next + 1, stays: false, kind: FaultKind::NoSpace }));
        file.write_at(&[1; 2048], 0).unwrap();
        let error = file.write_at(&[2; 2048], 0).unwrap_err();
        assert!(matches!(error, VfsError::NoSpace { .. }));
        assert_eq!(vfs.image()[&path()][1023..1025], [2, 1]);
        file.write_at(&[3; 2048], 0).unwrap();
        vfs.set_fault(Some(Fault { call: 0, stays: true, kind: FaultKind::Io }));
        assert!(file.sync().is_err() && file.size().is_err() && vfs.size(&path()).is_err());
    }
}
