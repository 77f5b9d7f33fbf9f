//! Faults of frames, sessions and peers.

/// A fault of a peer. None is a reason to end the process, and none touches other peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A frame is no CBOR, or its values are out of place.
    #[error("CBOR, byte {at}: {why}")]
    Cbor {
        /// The place in the frame.
        at: usize,
        /// The fault.
        why: &'static str,
    },
    /// A frame of text; messages are binary.
    #[error("a text frame: messages are binary frames")]
    NotBinary,
    /// A message lacks a member.
    #[error("message without {0}")]
    Missing(&'static str),
    /// A message names a member twice.
    #[error("message with two values of {0}")]
    Twice(&'static str),
    /// A message of an unknown type.
    #[error("message of an unknown type")]
    UnknownType,
    /// An id of no document.
    #[error("not a document id")]
    DocumentId,
    /// A peer id or storage id, empty or too long.
    #[error("peer id: empty, or longer than {0} bytes")]
    PeerId(usize),
    /// A message longer than its kind may be.
    #[error("{what}: more than {max}")]
    TooLarge {
        /// The quantity.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// None of the peer's versions is known here.
    #[error("unsupported protocol version: this end speaks version 1")]
    Version,
    /// A first message other than a join.
    #[error("a message before join")]
    BeforeJoin,
    /// No join in time.
    #[error("no join in time")]
    NoJoin,
    /// A join under another id on a joined connection.
    #[error("a second join under another peer id")]
    SecondJoin,
    /// The id is in use by a later connection.
    #[error("the peer id joined on a newer connection")]
    Replaced,
    /// A message in the name of another peer.
    #[error("senderId is not the id of the join")]
    Impersonation,
    /// A message to another peer.
    #[error("targetId is not the id of this end")]
    WrongTarget,
    /// Sync data other than a sync message.
    #[error("not a sync message")]
    SyncMessage,
    /// Changes beyond the limits, undecodable, or at odds with their document.
    #[error("changes refused")]
    Changes,
    /// Changes of a history that was begun apart, of a document by the same name.
    #[error("the two histories have no change in common")]
    Unrelated,
    /// More than a peer may ask for at a time.
    #[error("too many {0}")]
    TooMany(&'static str),
    /// Frames were not read for too long.
    #[error("frames were not read in time")]
    Slow,
    /// The database cannot be read or written.
    #[error("the documents cannot be stored at the moment")]
    Storage,
    /// The document's stored changes cannot be read.
    #[error("the document cannot be read")]
    Unreadable,
    /// This end is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// No credential where one is needed.
    #[error("a token is needed: ?token= in the URL")]
    NoToken,
    /// A credential of nobody: malformed, or made by somebody else.
    #[error("the token or ticket was not made for this server")]
    BadToken,
    /// A credential past its time.
    #[error("the token or ticket has expired")]
    Expired,
    /// A credential taken back.
    #[error("the token was revoked")]
    Revoked,
    /// No ticket where work admits strangers.
    #[error("admission is paid by work: POST /admission gives the challenge, then ?ticket=")]
    Unpaid,
    /// A ticket's allowance is used up.
    #[error("the allowance of the ticket is used up: {0}")]
    Allowance(&'static str),
    /// Changes of a peer that may only read.
    #[error("the document may be read, and not changed")]
    ReadOnly,
    /// A document on the list of denied ones.
    #[error("the document is not served")]
    Denied,
    /// The peer id belongs to a connection with another credential.
    #[error("the peer id is in use by somebody else")]
    NameInUse,
    /// Too much waits for slow readers, and this one is the slowest of them.
    #[error("too much waits for slow readers")]
    Crowded,
}

impl Fault {
    /// A word for metrics, one for each kind.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Cbor { .. } => "cbor",
            Self::NotBinary => "not_binary",
            Self::Missing(_) => "missing_member",
            Self::Twice(_) => "double_member",
            Self::UnknownType => "unknown_type",
            Self::DocumentId => "document_id",
            Self::PeerId(_) => "peer_id",
            Self::TooLarge { .. } => "too_large",
            Self::Version => "version",
            Self::BeforeJoin => "before_join",
            Self::NoJoin => "no_join",
            Self::SecondJoin => "second_join",
            Self::Replaced => "replaced",
            Self::Impersonation => "impersonation",
            Self::WrongTarget => "wrong_target",
            Self::SyncMessage => "sync_message",
            Self::Changes => "changes",
            Self::Unrelated => "unrelated",
            Self::TooMany(_) => "too_many",
            Self::Slow => "slow",
            Self::Storage => "storage",
            Self::Unreadable => "unreadable",
            Self::Stopping => "stopping",
            Self::NoToken => "no_token",
            Self::BadToken => "bad_token",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Unpaid => "unpaid",
            Self::Allowance(_) => "allowance",
            Self::ReadOnly => "read_only",
            Self::Denied => "denied",
            Self::NameInUse => "name_in_use",
            Self::Crowded => "crowded",
        }
    }

    /// True when the connection cannot go on; otherwise the message alone is ignored.
    pub(crate) const fn ends_session(&self) -> bool {
        match self {
            Self::TooLarge { .. }
            | Self::PeerId(_)
            | Self::Version
            | Self::NoJoin
            | Self::SecondJoin
            | Self::Replaced
            | Self::Slow
            | Self::Storage
            | Self::Stopping
            | Self::NoToken
            | Self::BadToken
            | Self::Expired
            | Self::Revoked
            | Self::Unpaid
            | Self::Allowance(_)
            | Self::NameInUse
            | Self::Crowded => true,
            Self::Cbor { .. }
            | Self::NotBinary
            | Self::Missing(_)
            | Self::Twice(_)
            | Self::UnknownType
            | Self::DocumentId
            | Self::BeforeJoin
            | Self::Impersonation
            | Self::WrongTarget
            | Self::SyncMessage
            | Self::Changes
            | Self::Unrelated
            | Self::TooMany(_)
            | Self::ReadOnly
            | Self::Denied
            | Self::Unreadable => false,
        }
    }
}
