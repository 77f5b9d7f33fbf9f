//! Events and effects: all traffic between a hub and its driver.

use std::sync::Arc;

use shoal_history::{Change, ChangeGraph};

use crate::{Access, DocumentId, Fault, Rights};

/// A connection, numbered by the driver; no number comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Changes of one message on their way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// The end of the dialling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The other end dialled, and joins.
    Accepting,
    /// This end dialled, and joins.
    Dialing,
}

/// A stored document.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Its changes.
    pub graph: ChangeGraph,
    /// Its stored changes with missing dependencies.
    pub waiting: Vec<Change>,
}

/// Changes made durable.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// The changes that became part of the document, dependencies first. They may be more than the
    /// job brought, and fewer.
    pub changes: Vec<Change>,
    /// All changes with missing dependencies.
    pub waiting: Vec<Change>,
}

/// News for the hub.
#[derive(Debug)]
pub enum Event {
    /// A connection is open.
    Connected {
        /// The connection.
        connection: ConnectionId,
        /// The end of the dialling.
        role: Role,
        /// The rights of its peer.
        access: Access,
    },
    /// A binary frame came.
    Frame {
        /// The connection.
        connection: ConnectionId,
        /// The whole message.
        bytes: Vec<u8>,
    },
    /// Something other than a message came.
    Bad {
        /// The connection.
        connection: ConnectionId,
        /// The fault.
        fault: Fault,
    },
    /// A frame of so many bytes left the queue.
    Sent {
        /// The connection.
        connection: ConnectionId,
        /// The length of the frame.
        bytes: usize,
    },
    /// So many bytes of a frame in the queue were taken, and the frame is not through.
    Progress {
        /// The connection.
        connection: ConnectionId,
        /// The bytes.
        bytes: usize,
    },
    /// A connection is closed, by whichever end.
    Closed {
        /// The connection.
        connection: ConnectionId,
    },
    /// The answer to [`Effect::Open`]; `None` for a document that is not stored.
    Opened {
        /// The document.
        document: DocumentId,
        /// The stored state; a fault for an unreadable one.
        contents: Result<Option<Contents>, Fault>,
    },
    /// The answer to [`Effect::Store`], after the fsync.
    Stored {
        /// The document.
        document: DocumentId,
        /// The job.
        job: JobId,
        /// The stored changes. [`Fault::Changes`] when the changes were refused, and nothing of the
        /// job is stored; [`Fault::Storage`] when the disk failed.
        outcome: Result<Stored, Fault>,
    },
    /// Changes from elsewhere became durable.
    Changed {
        /// The document.
        document: DocumentId,
        /// The stored changes.
        stored: Stored,
    },
    /// The answer to [`Effect::Save`].
    Saved {
        /// The document.
        document: DocumentId,
        /// Every change of the document as it was then, in one chunk; `None` when there is none.
        snapshot: Option<Arc<Vec<u8>>>,
    },
    /// A document to be followed on every dialled connection.
    Follow {
        /// The document.
        document: DocumentId,
    },
    /// Other rights for a connection, in force at once.
    Admit {
        /// The connection.
        connection: ConnectionId,
        /// The rights of its peer.
        access: Access,
    },
    /// The end of a connection whose credential is not, or no longer, good; a peer that has not
    /// joined yet is told once it has.
    Refuse {
        /// The connection.
        connection: ConnectionId,
        /// Why.
        fault: Fault,
    },
    /// The answer to [`Effect::Ask`], or a later one, in force at once.
    Answered {
        /// The connection.
        connection: ConnectionId,
        /// The document.
        document: DocumentId,
        /// The rights of its peer.
        rights: Rights,
    },
    /// A document that nobody is served, whatever their rights; or one that is served again.
    Deny {
        /// The document.
        document: DocumentId,
        /// False when it is served again.
        is_denied: bool,
    },
    /// The end of every exchange of a document, which is about to be removed.
    Expel {
        /// The document.
        document: DocumentId,
    },
    /// Time passed. To be told every 100 ms or so.
    Tick,
}

/// Work for the driver.
#[derive(Debug)]
pub enum Effect {
    /// Send a frame. [`Event::Sent`] follows once it left the queue.
    Send {
        /// The connection.
        connection: ConnectionId,
        /// The frame.
        bytes: Vec<u8>,
    },
    /// Send what is queued, then close. [`Event::Closed`] follows.
    Close {
        /// The connection.
        connection: ConnectionId,
        /// Why.
        fault: Fault,
    },
    /// Read no more frames from a connection.
    Pause {
        /// The connection.
        connection: ConnectionId,
    },
    /// Read frames again.
    Resume {
        /// The connection.
        connection: ConnectionId,
    },
    /// Read a document. [`Event::Opened`] follows.
    Open {
        /// The document.
        document: DocumentId,
    },
    /// Make changes durable. [`Event::Stored`] follows; the jobs of one document in their order.
    Store {
        /// The document.
        document: DocumentId,
        /// The job.
        job: JobId,
        /// Chunks, one after the other, from a stranger.
        chunks: Vec<u8>,
    },
    /// Give a document as one chunk. [`Event::Saved`] follows.
    Save {
        /// The document.
        document: DocumentId,
    },
    /// Find out the rights of a connection to a document. [`Event::Answered`] follows.
    Ask {
        /// The connection.
        connection: ConnectionId,
        /// The document.
        document: DocumentId,
    },
    /// A document may leave the memory.
    Release {
        /// The document.
        document: DocumentId,
    },
    /// A dialled peer has answered.
    Joined {
        /// The connection.
        connection: ConnectionId,
        /// The peer's id.
        peer: String,
    },
    /// A dialled peer has words for developers.
    Told {
        /// The connection.
        connection: ConnectionId,
        /// The words.
        message: String,
    },
    /// A dialled peer does not have a document.
    Unavailable {
        /// The document.
        document: DocumentId,
    },
    /// This end refuses a dialled peer's changes of a document, or cannot read its own; the
    /// exchange of the document is over.
    Refused {
        /// The connection.
        connection: ConnectionId,
        /// The document.
        document: DocumentId,
        /// Why.
        fault: Fault,
    },
    /// A dialled peer and this end have the same changes of a document.
    InSync {
        /// The connection.
        connection: ConnectionId,
        /// The document.
        document: DocumentId,
    },
}
