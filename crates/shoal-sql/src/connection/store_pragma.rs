//! The `PRAGMA`s that change how an open file is used: when a commit is durable and by which
//! journal, when its log is put into the database, how long to wait for others.

use std::time::Duration;

use shoal_store::{
    AutoVacuum, CheckpointMode, JournalMode, Mode, Rollback, SecureDelete, Settings, Store,
    Synchronous, TextEncoding,
};

use super::attached::Databases;
use super::pragma::{Kind, Pragma, unknown_database};
use crate::Error;
use crate::value::{Value, to_int};

/// The words of `PRAGMA journal_mode`.
const MODES: [(&str, JournalMode); 6] = [
    ("delete", JournalMode::Rollback(Rollback::Delete)),
    ("truncate", JournalMode::Rollback(Rollback::Truncate)),
    ("persist", JournalMode::Rollback(Rollback::Persist)),
    ("memory", JournalMode::Rollback(Rollback::Memory)),
    ("off", JournalMode::Rollback(Rollback::Off)),
    ("wal", JournalMode::Wal),
];

/// The levels of `PRAGMA synchronous`, by number.
const LEVELS: [Synchronous; 4] =
    [Synchronous::Off, Synchronous::Normal, Synchronous::Full, Synchronous::Extra];

pub(super) fn journal_mode_name(mode: JournalMode) -> &'static str {
    MODES.iter().find(|(_, known)| *known == mode).map_or("delete", |(name, _)| name)
}

pub(super) fn synchronous_number(level: Synchronous) -> i64 {
    LEVELS.iter().zip(0..).find(|(known, _)| **known == level).map_or(2, |(_, number)| number)
}

pub(super) fn secure_delete_number(secure_delete: SecureDelete) -> i64 {
    match secure_delete {
        SecureDelete::Off => 0,
        SecureDelete::On => 1,
        SecureDelete::Fast => 2,
    }
}

pub(super) fn busy_timeout_ms(settings: &Settings) -> i64 {
    i64::try_from(settings.busy_timeout.as_millis()).unwrap_or(i64::MAX)
}

impl Pragma {
    /// Whether it does something to the open file beside its transactions.
    pub(super) fn is_of_store(&self) -> bool {
        match self.kind() {
            Kind::WalCheckpoint => true,
            Kind::Key(_) | Kind::HexKey(_) | Kind::CodecSetting(_) => true,
            Kind::BusyTimeout
            | Kind::CacheSize
            | Kind::JournalMode
            | Kind::SecureDelete
            | Kind::Synchronous
            | Kind::TempStore
            | Kind::WalAutocheckpoint => self.argument().is_some(),
            _ => self.shapes_new_file(),
        }
    }

    /// True where the pragma shapes the pages of a file without any.
    pub(super) fn shapes_new_file(&self) -> bool {
        matches!(self.kind(), Kind::PageSize | Kind::Encoding | Kind::AutoVacuum)
            && self.argument().is_some()
    }

    /// Does it, and gives its rows. Without a database's name it means all of them; the rows are
    /// those of `main` then.
    ///
    /// # Errors
    /// The store's; a database that does not exist; what cannot be done within a transaction.
    pub(super) fn run_on_store(
        &self,
        main: &Store,
        databases: &Databases,
        open: Option<bool>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let named = self.database().map(|name| name.text.as_str());
        let stores: Vec<&Store> = match named {
            // What is temporary has no file.
            Some(name) if name.eq_ignore_ascii_case("temp") => return Ok(Vec::new()),
            Some(name) if name.eq_ignore_ascii_case("main") => vec![main],
            Some(name) => vec![databases.store(name).ok_or_else(|| unknown_database(name))?],
            _ if self.kind() == Kind::TempStore || self.is_of_codec() => vec![main],
            None if matches!(self.kind(), Kind::Synchronous | Kind::CacheSize)
                || self.shapes_new_file() =>
            {
                vec![main]
            }
            None => std::iter::once(main).chain(databases.stores()).collect(),
        };
        let mut rows = None;
        for store in stores {
            let row = self.run_on(store, open)?;
            rows.get_or_insert(row);
        }
        Ok(rows.into_iter().flatten().map(|row| row.into_iter().collect()).collect())
    }

    /// As [`Pragma::run_on_store`], on one file: the row, if it has one.
    fn run_on(&self, store: &Store, open: Option<bool>) -> Result<Option<Vec<Value>>, Error> {
        let mut settings = store.settings();
        let number = self.argument().map_or(0, |value| to_int(value.as_ref()));
        Ok(match self.kind() {
            Kind::BusyTimeout => {
                let ms = u64::try_from(number).unwrap_or(0);
                settings.busy_timeout = Duration::from_millis(ms);
                store.set_settings(settings);
                Some(vec![Value::Int(busy_timeout_ms(&settings))])
            }
            Kind::CacheSize => {
                store.set_cache_size(number.clamp(i64::from(i32::MIN) + 1, i32::MAX.into()));
                None
            }
            Kind::SecureDelete => {
                let wanted = match () {
                    () if self.argument_is("fast") => SecureDelete::Fast,
                    () if self.is_on() => SecureDelete::On,
                    () => SecureDelete::Off,
                };
                store.set_secure_delete(wanted);
                Some(vec![Value::Int(secure_delete_number(wanted))])
            }
            Kind::TempStore => {
                let words = [("default", 0), ("file", 1), ("memory", 2), ("1", 1), ("2", 2)];
                let place = words.iter().find(|(word, _)| self.argument_is(word));
                let place = place.map_or(0, |(_, place)| *place);
                store.set_temp_store(place);
                None
            }
            Kind::WalAutocheckpoint => {
                settings.wal_autocheckpoint =
                    u32::try_from(number.clamp(0, i64::from(i32::MAX))).unwrap_or(0);
                store.set_settings(settings);
                Some(vec![Value::Int(settings.wal_autocheckpoint.into())])
            }
            Kind::PageSize => {
                let size = u32::try_from(number).unwrap_or(0);
                if (512..=65536).contains(&size) && size.is_power_of_two() {
                    settings.new_file.page_size = Some(size);
                    store.set_settings(settings);
                }
                None
            }
            Kind::AutoVacuum => {
                let words = [("none", 0), ("full", 1), ("incremental", 2)];
                let word = words.iter().find(|(word, _)| self.argument_is(word));
                let mode = match word.map_or(number, |(_, mode)| *mode) {
                    1 => AutoVacuum::Full,
                    2 => AutoVacuum::Incremental,
                    _ => AutoVacuum::None,
                };
                settings.new_file.auto_vacuum = Some(mode);
                store.set_settings(settings);
                let now = AutoVacuum::of(store.begin(Mode::Read)?.header());
                if ![mode, now].contains(&AutoVacuum::None) && mode != now {
                    if open.is_some() {
                        let what = "auto_vacuum may not be changed inside a transaction";
                        return Err(Error::runtime(what));
                    }
                    let mut transaction = store.begin(Mode::Write)?;
                    transaction.set_incremental_vacuum(mode == AutoVacuum::Incremental)?;
                    transaction.commit()?;
                }
                None
            }
            Kind::Encoding => {
                settings.new_file.text_encoding = self.encoding()?;
                let is_new = open != Some(true) && store.begin(Mode::Read)?.page_count() == 0;
                if is_new {
                    store.set_settings(settings);
                }
                None
            }
            Kind::Synchronous => {
                if open.is_some() {
                    let what = "Safety level may not be changed inside a transaction";
                    return Err(Error::runtime(what));
                }
                settings.synchronous = self.level();
                store.set_settings(settings);
                None
            }
            Kind::Key(again) | Kind::HexKey(again) => {
                if open.is_some() {
                    return Err(Error::runtime("a key cannot be given within a transaction"));
                }
                let key = self.key()?;
                match again {
                    true => store.rekey(&key)?,
                    false => store.set_key(&key)?,
                }
                Some(vec![Value::text("ok")])
            }
            Kind::CodecSetting(name) => {
                let value = self.text();
                match store.codec_setting(name, value.as_deref()) {
                    None => None,
                    Some(Err(refused)) => return Err(Error::runtime(refused.why)),
                    Some(Ok(value)) => Some(vec![Value::text(value.as_str())]),
                }
            }
            Kind::JournalMode => {
                Some(vec![journal_mode_name(self.change_mode(store, open)?).into()])
            }
            _ => {
                if open == Some(true) {
                    return Err(Error::runtime("database table is locked"));
                }
                let modes = [
                    ("full", CheckpointMode::Full),
                    ("restart", CheckpointMode::Restart),
                    ("truncate", CheckpointMode::Truncate),
                ];
                let mode = modes.into_iter().find(|(word, _)| self.argument_is(word));
                let done =
                    store.checkpoint(mode.map_or(CheckpointMode::Passive, |(_, mode)| mode))?;
                let frames =
                    done.frames.map_or([-1, -1], |(all, moved)| [all.into(), moved.into()]);
                let row = [i64::from(done.busy), frames[0], frames[1]];
                Some(row.map(Value::Int).to_vec())
            }
        })
    }

    /// True for keys and formats of sealed files.
    pub(super) fn is_of_codec(&self) -> bool {
        matches!(self.kind(), Kind::Key(_) | Kind::HexKey(_) | Kind::CodecSetting(_))
    }

    /// The bytes of a key: a text's, or those of a blob as `x'...'`, which means a raw key.
    ///
    /// # Errors
    /// [`Error::Runtime`] for anything else.
    fn key(&self) -> Result<Vec<u8>, Error> {
        let hex = |text: &str| {
            let digits = text.as_bytes().chunks(2);
            let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
            digits.map(byte).collect::<Option<Vec<u8>>>()
        };
        let key = match (self.kind(), self.argument()) {
            (Kind::HexKey(_), Some(Value::Text(_))) => hex(&self.text().unwrap_or_default()),
            (_, Some(Value::Blob(bytes))) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                Some(format!("x'{digits}'").into_bytes())
            }
            _ => self.text().map(String::into_bytes),
        };
        key.filter(|key| !key.is_empty()).ok_or_else(|| Error::runtime("a key is a text"))
    }

    /// The encoding of the argument's name.
    ///
    /// # Errors
    /// [`Error::Runtime`] for any other word.
    fn encoding(&self) -> Result<TextEncoding, Error> {
        let known = [
            ("UTF8", TextEncoding::Utf8),
            ("UTF-8", TextEncoding::Utf8),
            ("UTF-16le", TextEncoding::Utf16Le),
            ("UTF-16be", TextEncoding::Utf16Be),
            ("UTF16le", TextEncoding::Utf16Le),
            ("UTF16be", TextEncoding::Utf16Be),
            // The byte order of the machines built for.
            ("UTF-16", TextEncoding::Utf16Le),
            ("UTF16", TextEncoding::Utf16Le),
        ];
        let found = known.iter().find(|(word, _)| self.argument_is(word));
        found.map(|(_, encoding)| *encoding).ok_or_else(|| {
            Error::runtime(format!("unsupported encoding: {}", self.text().unwrap_or_default()))
        })
    }

    /// The level that the argument means, as SQLite reads words and numbers.
    fn level(&self) -> Synchronous {
        let words = [("off", 0), ("no", 0), ("false", 0), ("on", 1), ("yes", 1), ("true", 1)];
        let more = [("full", 2), ("extra", 3)];
        let word = words.iter().chain(&more).find(|(word, _)| self.argument_is(word));
        let place = match (word, self.argument()) {
            (Some((_, place)), _) => *place,
            (None, Some(Value::Int(number))) => usize::try_from(number & 3).unwrap_or(1),
            _ => 1,
        };
        LEVELS[place]
    }

    fn change_mode(&self, store: &Store, open: Option<bool>) -> Result<JournalMode, Error> {
        let before = store.journal_mode()?;
        let wanted = MODES.iter().find(|(word, _)| self.argument_is(word)).map(|(_, mode)| *mode);
        let Some(wanted) = wanted.filter(|wanted| *wanted != before) else { return Ok(before) };
        let (from, to) = (before == JournalMode::Wal, wanted == JournalMode::Wal);
        if open.is_some() && (from || to) {
            let way = if to { "into" } else { "out of" };
            return Err(Error::runtime(format!(
                "cannot change {way} wal mode from within a transaction"
            )));
        }
        Ok(store.set_journal_mode(wanted)?)
    }
}
