//! The bytes below a WebSocket: counted, and bounded before memory is taken for them.
//!
//! The WebSocket library takes memory for a frame as soon as its header says how long the frame is.
//! [`Wire`] reads headers first: long messages wait for room among those of all sockets, and a
//! socket that has not joined may send short ones only.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use shoal_sync::Fault;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest frame of a socket that has not joined; joins are a few hundred bytes long.
pub(crate) const JOIN_BYTES: u64 = 4 << 10;
/// Messages up to this length need no room.
const SHORT: u64 = 256 << 10;
/// Kibibytes of long messages that all sockets may be sending at a time.
pub(crate) const INCOMING_KIB: usize = 256 << 10;
/// The longest header of a frame.
const HEADER_MAX: usize = 14;

/// Figures of a socket, shared by its wire and its task.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Bytes read.
    pub(crate) read: AtomicU64,
    /// Bytes written.
    pub(crate) written: AtomicU64,
    /// Longer messages may come.
    pub(crate) has_joined: AtomicBool,
    /// A message has begun, and its end has not come.
    pub(crate) is_within: AtomicBool,
    /// A message waits for its first room: nothing is read, and its sender is not slow.
    pub(crate) is_waiting: AtomicBool,
    /// Why the wire was cut.
    fault: Mutex<Option<Fault>>,
}

impl Meter {
    pub(crate) fn take_fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A place in the stream of frames.
#[derive(Debug, Default)]
struct Place {
    header: [u8; HEADER_MAX],
    /// Bytes of the header that came.
    have: usize,
    payload_left: u64,
    /// The frame under way is the last of its message.
    is_last: bool,
    /// Bytes of the message under way, by the headers of its frames.
    message_bytes: u64,
}

/// The outcome of a look at bytes: so many may pass, and then room is needed, or the end.
struct Look {
    pass: usize,
    /// Kibibytes that the message needs in all, before more may pass.
    needs_kib: Option<usize>,
}

impl Place {
    /// The length of the header whose first bytes are here, once these tell.
    fn header_len(&self) -> Option<usize> {
        let second = *self.header[..self.have].get(1)?;
        let mask = if second & 0x80 != 0 { 4 } else { 0 };
        Some(
            mask + match second & 0x7f {
                126 => 4,
                127 => 10,
                _ => 2,
            },
        )
    }

    fn payload_len(&self) -> u64 {
        let extended = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        match self.header[1] & 0x7f {
            126 => extended(&self.header[2..4]),
            127 => extended(&self.header[2..10]),
            short => u64::from(short),
        }
    }

    /// Follows the frames through bytes, as far as `room_kib` of the message allow.
    fn look(
        &mut self,
        bytes: &[u8],
        room_kib: usize,
        longest: u64,
        has_joined: bool,
    ) -> Result<Look, Fault> {
        let mut at = 0;
        while at < bytes.len() {
            if self.payload_left > 0 {
                let skipped = usize::try_from(self.payload_left).unwrap_or(usize::MAX);
                let skipped = skipped.min(bytes.len() - at);
                self.payload_left -= skipped as u64;
                at += skipped;
            } else {
                self.header[self.have] = bytes[at];
                self.have += 1;
                if self.header_len() != Some(self.have) {
                    at += 1;
                    continue;
                }
                let length = self.payload_len();
                let is_control = self.header[0] & 0x08 != 0;
                let message = self.message_bytes.saturating_add(length);
                let bound = if has_joined { longest } else { JOIN_BYTES };
                if message > bound {
                    let max = usize::try_from(bound).unwrap_or(usize::MAX);
                    let what = if has_joined {
                        "bytes of a frame"
                    } else {
                        "bytes of a frame before join"
                    };
                    return Err(Fault::TooLarge { what, max });
                }
                let kib = usize::try_from(message / 1024 + 1).unwrap_or(usize::MAX);
                if !is_control && message > SHORT && room_kib < kib {
                    // This byte comes again, once there is room.
                    self.have -= 1;
                    return Ok(Look { pass: at, needs_kib: Some(kib) });
                }
                self.have = 0;
                self.payload_left = length;
                if !is_control {
                    self.message_bytes = message;
                    self.is_last = self.header[0] & 0x80 != 0;
                }
                at += 1;
            }
            if self.payload_left == 0 && self.have == 0 && self.is_last {
                (self.message_bytes, self.is_last) = (0, false);
            }
        }
        Ok(Look { pass: at, needs_kib: None })
    }

    const fn is_within(&self) -> bool {
        self.have > 0 || self.payload_left > 0 || self.message_bytes > 0
    }
}

type Waiting = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

/// A stream of WebSocket frames.
pub(crate) struct Wire<T> {
    inner: T,
    meter: Arc<Meter>,
    /// The longest message.
    longest: u64,
    place: Place,
    is_unread: bool,
    room: Arc<Semaphore>,
    /// The room of the message under way.
    permit: Option<OwnedSemaphorePermit>,
    waiting: Option<Waiting>,
    /// Bytes read that wait for room.
    held: Vec<u8>,
}

impl<T> Wire<T> {
    pub(crate) fn new(inner: T, meter: Arc<Meter>, longest: usize, room: Arc<Semaphore>) -> Self {
        let longest = longest as u64;
        let (place, held) = (Place::default(), Vec::new());
        let (is_unread, permit, waiting) = (false, None, None);
        Self { inner, meter, longest, place, is_unread, room, permit, waiting, held }
    }

    /// The wire of a client: the answer to its request comes before frames, and whoever was dialled
    /// is trusted not to flood. Bytes are counted, and not looked at.
    pub(crate) fn unread(mut self) -> Self {
        self.is_unread = true;
        self
    }

    /// Looks at bytes in the buffer from `start` on; those to wait go to `held`.
    fn pass(&mut self, buffer: &mut ReadBuf<'_>, start: usize) -> io::Result<()> {
        let room_kib = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let has_joined = self.meter.has_joined.load(Ordering::Relaxed);
        let looked = self.place.look(&buffer.filled()[start..], room_kib, self.longest, has_joined);
        let look = match looked {
            Ok(look) => look,
            Err(fault) => {
                buffer.set_filled(start);
                *self.meter.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
                return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
            }
        };
        if let Some(kib) = look.needs_kib {
            self.held = buffer.filled()[start + look.pass..].to_vec();
            // Whoever has room and waits for more may wait for somebody who does so too.
            self.meter.is_waiting.store(room_kib == 0, Ordering::Relaxed);
            let more = u32::try_from(kib - room_kib).unwrap_or(u32::MAX);
            let room = Arc::clone(&self.room);
            self.waiting = Some(Box::pin(async move { room.acquire_many_owned(more).await.ok() }));
        } else if self.place.message_bytes == 0 {
            self.permit = None;
        }
        buffer.set_filled(start + look.pass);
        self.meter.is_within.store(self.place.is_within(), Ordering::Relaxed);
        Ok(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Wire<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if let Some(waiting) = &mut this.waiting {
                let permit = ready!(waiting.as_mut().poll(cx));
                this.waiting = None;
                this.meter.is_waiting.store(false, Ordering::Relaxed);
                match (&mut this.permit, permit) {
                    (Some(permit), Some(more)) => permit.merge(more),
                    (place, more) => *place = more,
                }
            }
            let start = buffer.filled().len();
            if this.held.is_empty() {
                ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
                let came = buffer.filled().len() - start;
                if came == 0 {
                    return Poll::Ready(Ok(()));
                }
                this.meter.read.fetch_add(came as u64, Ordering::Relaxed);
                if this.is_unread {
                    return Poll::Ready(Ok(()));
                }
            } else {
                let some = this.held.len().min(buffer.remaining());
                buffer.put_slice(&this.held[..some]);
                this.held.drain(..some);
                let rest = std::mem::take(&mut this.held);
                this.pass(buffer, start)?;
                this.held.extend_from_slice(&rest);
                if buffer.filled().len() > start {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            this.pass(buffer, start)?;
            if buffer.filled().len() > start {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Wire<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.inner).poll_write(cx, bytes))?;
        this.meter.written.fetch_add(written as u64, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A masked frame of zeros.
    fn frame(first: u8, length: u64) -> Vec<u8> {
        let mut bytes = vec![first];
        match length {
            0..126 => bytes.push(0x80 | length as u8),
            126..65_536 => {
                bytes.push(0x80 | 126);
                bytes.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                bytes.push(0x80 | 127);
                bytes.extend_from_slice(&length.to_be_bytes());
            }
        }
        bytes.extend_from_slice(&[1, 2, 3, 4]);
        bytes.resize(bytes.len() + length as usize, 0);
        bytes
    }

    const LONG: u64 = 600 << 10;

    fn stream() -> Vec<u8> {
        let mut bytes = frame(0x82, 100);
        bytes.extend(frame(0x89, 5));
        bytes.extend(frame(0x82, LONG));
        // A message in three frames, with a ping between them.
        bytes.extend(frame(0x02, 200 << 10));
        bytes.extend(frame(0x00, 200 << 10));
        bytes.extend(frame(0x89, 125));
        bytes.extend(frame(0x80, 0));
        bytes.extend(frame(0x82, 70_000));
        bytes
    }

    async fn through(step: usize, room_kib: usize) -> (Vec<u8>, usize) {
        let (near, mut far) = tokio::io::duplex(step);
        let bytes = stream();
        let sending = tokio::spawn(async move {
            for piece in bytes.chunks(step) {
                far.write_all(piece).await.expect("a duplex takes bytes");
            }
        });
        let meter = Arc::new(Meter::default());
        meter.has_joined.store(true, Ordering::Relaxed);
        let room = Arc::new(Semaphore::new(room_kib));
        let mut wire = Wire::new(near, Arc::clone(&meter), 1 << 20, Arc::clone(&room));
        let mut came = Vec::new();
        wire.read_to_end(&mut came).await.expect("frames within the bounds pass");
        sending.await.expect("the sender ends");
        assert!(!meter.is_within.load(Ordering::Relaxed));
        (came, room.available_permits())
    }

    #[tokio::test]
    async fn every_byte_passes_unchanged_and_room_is_given_back() {
        for step in [1_000_000, 4_096, 777, 13] {
            let (came, left) = through(step, 1_024).await;
            assert_eq!((came == stream(), left), (true, 1_024), "{step}");
        }
    }

    #[tokio::test]
    async fn a_long_message_waits_for_room() {
        let room = Arc::new(Semaphore::new(100));
        let meter = Arc::new(Meter::default());
        meter.has_joined.store(true, Ordering::Relaxed);
        let bytes = frame(0x82, LONG);
        let mut wire = Wire::new(&bytes[..], meter, 1 << 20, Arc::clone(&room));
        let mut came = vec![0; bytes.len()];
        let brief = std::time::Duration::from_millis(50);
        let mut reading = Box::pin(wire.read_exact(&mut came));
        assert!(tokio::time::timeout(brief, &mut reading).await.is_err());
        room.add_permits(1_000);
        reading.await.expect("there is room");
    }

    #[tokio::test]
    async fn before_the_join_frames_are_short() {
        let meter = Arc::new(Meter::default());
        let room = Arc::new(Semaphore::new(1));
        // The header alone: nothing is waited for, and no memory taken.
        let header = &frame(0x82, JOIN_BYTES + 1)[..8];
        let mut wire = Wire::new(header, Arc::clone(&meter), 1 << 20, Arc::clone(&room));
        let mut came = Vec::new();
        wire.read_to_end(&mut came).await.expect_err("the frame is too long");
        assert!(matches!(meter.take_fault(), Some(Fault::TooLarge { max: 4_096, .. })));
        meter.has_joined.store(true, Ordering::Relaxed);
        let frame = [0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        let mut wire = Wire::new(&frame[..], Arc::clone(&meter), 1 << 20, room);
        wire.read_to_end(&mut came).await.expect_err("no frame is as long");
        assert!(matches!(meter.take_fault(), Some(Fault::TooLarge { max: 1_048_576, .. })));
    }
}
