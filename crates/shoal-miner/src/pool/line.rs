//! Lines out of a stream of bytes, however they are cut.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads lines ending in a line feed. Parts of a line are kept until the rest comes, also when
/// the waiting future is dropped.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Bytes of the buffer without a line feed.
    searched: usize,
    longest: usize,
}

/// Why there is no next line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// More bytes than a line may have, and still no line feed.
    #[error("a line is longer than allowed: {max} bytes")]
    TooLong {
        /// The limit.
        max: usize,
    },
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `longest` bytes. The buffer holds one such line and one read more.
    pub fn new(reader: R, longest: usize) -> Self {
        Self { reader, buffer: Vec::new(), searched: 0, longest }
    }

    /// The next line without its line feed, or `None` at the end of the stream; bytes behind the
    /// last line feed are dropped there.
    ///
    /// # Errors
    /// [`LineError`]; the stream is good for nothing then.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        loop {
            let fresh = &self.buffer[self.searched..];
            if let Some(at) = fresh.iter().position(|&byte| byte == b'\n') {
                let end = self.searched + at;
                if end > self.longest {
                    return Err(LineError::TooLong { max: self.longest });
                }
                let line = self.buffer[..end].to_vec();
                self.buffer.drain(..=end);
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.searched > self.longest {
                return Err(LineError::TooLong { max: self.longest });
            }
            self.buffer.reserve(READ_BYTES);
            // Nothing is lost by a cancel: bytes go into the buffer or stay in the socket.
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

const READ_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use tokio::io::AsyncWriteExt;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn lines_survive_any_cut() {
        let text = b"one\n\ntwo\r\nthree is longer\nrest";
        for piece in 1..text.len() {
            let (mut to, from) = tokio::io::duplex(1024);
            let read = block_on(async {
                let mut lines = Lines::new(from, 20);
                let mut read = Vec::new();
                for part in text.chunks(piece) {
                    to.write_all(part).await.unwrap();
                    // Reading is given up again and again in the middle of a line.
                    while let Ok(line) = tokio::time::timeout(Duration::ZERO, lines.next()).await {
                        read.push(line.unwrap().unwrap());
                    }
                }
                drop(to);
                while let Some(line) = lines.next().await.unwrap() {
                    read.push(line);
                }
                read
            });
            assert_eq!(read, [&b"one"[..], b"", b"two\r", b"three is longer"], "in {piece}s");
        }
    }

    #[test]
    fn a_huge_line_is_refused_before_it_is_held() {
        let (mut to, from) = tokio::io::duplex(1 << 16);
        block_on(async {
            let mut lines = Lines::new(from, 100);
            to.write_all(&[b'x'; 50_000]).await.unwrap();
            let refused = lines.next().await;
            assert!(matches!(refused, Err(LineError::TooLong { max: 100 })), "{refused:?}");
            assert!(lines.buffer.capacity() <= 4 * READ_BYTES, "{}", lines.buffer.capacity());
        });
    }

    #[test]
    fn the_longest_line_is_taken() {
        let bytes = [&[b'x'; 100][..], b"\n", &[b'x'; 101], b"\n"].concat();
        block_on(async {
            let mut lines = Lines::new(&bytes[..], 100);
            assert_eq!(lines.next().await.unwrap().unwrap().len(), 100);
            assert!(matches!(lines.next().await, Err(LineError::TooLong { .. })));
        });
    }
}
