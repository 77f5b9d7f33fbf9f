//! `shoal-vault`: the engine of the table rows on sealed files, and on plain ones read as sealed
//! ones are, page by page and without a mapping.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_argon::{Argon2, Inputs, Params, Variant, Version};
use shoal_sql::{Connection, Statement};
use shoal_store::vfs::{Entropy, OsEntropy, OsVfs};
use shoal_store::{Access as StoreAccess, CodecSource, Options, PageCodec, Pgno, Refused, Store};
use shoal_vault::{Cipher, Cost, Keys, NewKey, Secret};

use super::table::{Db, Form, Row, Tables, failed, store};
use crate::engine::table::{Access, Cell, TableSpec};
use crate::engine::{About, Guarantee, Miss, TableEngine};

/// How pages lie in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seal {
    /// Plain: mapped where the file is longer than the cache.
    Mapped,
    /// Plain, and never mapped: the baseline of decoding.
    Read,
    /// Sealed.
    By(Cipher),
}

/// All of them.
pub(super) const FORMS: [Seal; 4] =
    [Seal::Read, Seal::Mapped, Seal::By(Cipher::AesGcmSiv), Seal::By(Cipher::XChaCha)];

/// The passphrase of the row `open_passphrase`.
const PASSPHRASE: &[u8] = b"correct horse battery staple";

/// Shoal's SQL on files of one form. The row `open_passphrase` opens sealed files by a passphrase;
/// all other rows open them by the private key of a recipient, without costs of Argon2id.
pub(super) struct Sealed {
    seal: Seal,
    private: Secret,
}

impl Sealed {
    pub(super) fn new(seal: Seal) -> Sealed {
        // A fixed key: copies in the cache are opened by later runs.
        let (text, _) = shoal_vault::new_pair(|bytes| bytes.fill(0x51));
        Sealed { seal, private: Secret::new(text.as_bytes()) }
    }

    fn keys(&self, secret: &Secret) -> Result<Arc<dyn CodecSource>, Miss> {
        let keys = Keys::new(Arc::new(OsEntropy)).with_key(secret.clone());
        if let Seal::By(cipher) = self.seal {
            keys.set("cipher", cipher.name()).map_err(|refused| Miss::Failed(refused.why))?;
        }
        Ok(Arc::new(keys))
    }

    /// The sealed copy of a plain file; both keys open the copy.
    fn copy(&self, path: &Path, scratch: &Path, cipher: Cipher) -> Result<PathBuf, Miss> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let copy = scratch.join(format!("{stem}-{}.db", cipher.name()));
        if copy.exists() {
            return Ok(copy);
        }
        let part = copy.with_extension("part");
        let _ = std::fs::remove_file(&part);
        let secret = Secret::new(PASSPHRASE);
        let keys = [
            NewKey::secret(&self.private, Cost::default()),
            NewKey::secret(&secret, Cost::default()),
        ];
        let keys = keys.into_iter().collect::<Result<Vec<_>, _>>().map_err(Miss::failed)?;
        let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
        let codec = shoal_vault::create(&keys, cipher, &entropy).map_err(Miss::failed)?;
        let options = Options { codec: Some(Arc::new(codec)), ..Options::new(StoreAccess::Create) };
        let target =
            Store::open_with(Arc::new(OsVfs::new()), &part, options).map_err(Miss::failed)?;
        let source = store(path, Access::Write, Form::Autocommit)?;
        drop(failed(failed(Connection::open(source))?.copy_into(&target))?);
        drop(target);
        std::fs::rename(&part, &copy).map_err(Miss::failed)?;
        Ok(copy)
    }

    fn open_by(
        &self,
        path: &Path,
        access: Access,
        (scratch, secret): (&Path, &Secret),
    ) -> Result<Db, Miss> {
        let options = Options::new(match access {
            Access::Read => StoreAccess::ReadOnly,
            Access::Write => StoreAccess::Create,
        });
        let open = |path: &Path, options| {
            Store::open_with(Arc::new(OsVfs::new()), path, options).map_err(Miss::failed)
        };
        Db::over(match self.seal {
            Seal::Mapped => open(path, options)?,
            Seal::Read => open(path, Options { codec: Some(Arc::new(AsStored)), ..options })?,
            Seal::By(cipher) => {
                let copy = match access {
                    Access::Read => self.copy(path, scratch, cipher)?,
                    Access::Write => path.to_owned(),
                };
                open(&copy, Options { codecs: Some(self.keys(secret)?), ..options })?
            }
        })
    }
}

/// A codec that changes nothing: files with a codec are never mapped.
#[derive(Debug)]
struct AsStored;

impl PageCodec for AsStored {
    fn reserved(&self) -> u8 {
        0
    }

    fn encode(&self, _: Pgno, _: &mut [u8]) -> Result<(), Refused> {
        Ok(())
    }

    fn decode(&self, _: Pgno, _: &mut [u8]) -> Result<(), Refused> {
        Ok(())
    }

    fn for_temporary(&self) -> Arc<dyn PageCodec> {
        Arc::new(AsStored)
    }
}

const TABLES: Tables = Tables(Form::Autocommit);

impl TableEngine for Sealed {
    type Db = Db;
    type Statement = Statement;
    type Reader = Statement;
    type Row<'a> = Row<'a>;

    fn about(&self) -> About {
        let (name, note) = match self.seal {
            Seal::Mapped => ("shoal plain", "plain file, mapped where longer than the cache"),
            Seal::Read => ("shoal read", "plain file, read page by page as sealed ones are"),
            Seal::By(Cipher::AesGcmSiv) => ("shoal aes-siv", "sealed by AES-256-GCM-SIV"),
            Seal::By(Cipher::XChaCha) => ("shoal xchacha", "sealed by XChaCha20-Poly1305"),
        };
        About::ours(name, note).promising(Guarantee::Fresh)
    }

    fn open(&self, path: &Path, access: Access, scratch: &Path) -> Result<Db, Miss> {
        self.open_by(path, access, (scratch, &self.private))
    }

    fn open_by_passphrase(&self, path: &Path, scratch: &Path) -> Result<Db, Miss> {
        if !matches!(self.seal, Seal::By(_)) {
            let cost = Cost::default();
            let params = Params::new(cost.memory_kib(), cost.passes(), cost.lanes());
            let inputs = Inputs { password: PASSPHRASE, salt: &[7; 16], ..Inputs::default() };
            let mut key = [0; 32];
            Argon2::new(Variant::Id, Version::V0x13, params.map_err(Miss::failed)?)
                .hash(&inputs, &mut key)
                .map_err(Miss::failed)?;
        }
        self.open_by(path, Access::Read, (scratch, &Secret::new(PASSPHRASE)))
    }

    fn reader(&self, db: &mut Db, table: &TableSpec, columns: &[usize]) -> Result<Statement, Miss> {
        TABLES.reader(db, table, columns)
    }

    #[inline]
    fn seek(
        &self,
        db: &mut Db,
        reader: &mut Statement,
        rowid: i64,
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        TABLES.seek(db, reader, rowid, visit)
    }

    fn scan(
        &self,
        db: &mut Db,
        table: &TableSpec,
        columns: &[usize],
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        TABLES.scan(db, table, columns, visit)
    }

    fn create_table(&self, db: &mut Db, table: &TableSpec) -> Result<(), Miss> {
        TABLES.create_table(db, table)
    }

    fn execute(&self, db: &mut Db, sql: &str) -> Result<(), Miss> {
        TABLES.execute(db, sql)
    }

    fn insert(&self, db: &mut Db, table: &TableSpec, rows: &[Vec<Cell<'_>>]) -> Result<(), Miss> {
        TABLES.insert(db, table, rows)
    }
}
