//! Server-sent events, as far as a node sends them.

use serde_json::Value;

/// Something a node tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// The stream is there.
    Connected {
        /// Height of the chain.
        height: Option<u64>,
        /// `true` while the node is catching up.
        syncing: bool,
    },
    /// The chain has a new block.
    NewBlock {
        /// Its height.
        height: u64,
    },
}

/// Cuts a stream of bytes into events. Holds at most one event, of bounded size.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    name: String,
    data: String,
    /// The event is longer than allowed, and skipped up to its end.
    skip: bool,
}

impl Parser {
    /// Takes bytes as they come, and returns completed events. Unknown and
    /// malformed events are skipped.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<NodeEvent> {
        let mut events = Vec::new();
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                events.extend(self.end_line(line.strip_suffix(b"\r").unwrap_or(&line)));
            } else if self.line.len() < LINE_MAX {
                self.line.push(byte);
            } else {
                self.skip = true;
            }
        }
        events
    }

    fn end_line(&mut self, line: &[u8]) -> Option<NodeEvent> {
        if line.is_empty() {
            let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            let skip = std::mem::take(&mut self.skip);
            return if skip { None } else { read(&name, &data) };
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" if self.data.len() + value.len() < DATA_MAX => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "data" => self.skip = true,
            // Comments, which keep the connection alive, and fields of no concern.
            _ => {}
        }
        None
    }
}

fn read(name: &str, data: &str) -> Option<NodeEvent> {
    let data: Value = serde_json::from_str(data).ok()?;
    match name {
        "connected" => Some(NodeEvent::Connected {
            height: data["chain_height"].as_u64(),
            syncing: data["syncing"].as_bool().unwrap_or(false),
        }),
        "new_block" | "mined_block" => {
            Some(NodeEvent::NewBlock { height: data["height"].as_u64()? })
        }
        _ => None,
    }
}

const LINE_MAX: usize = 64 * 1024;
const DATA_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_any_cut() {
        let text = "event: connected\ndata: {\"chain_height\": 41, \"syncing\": true}\n\n: keepalive\n\n\
                    event: new_block\r\ndata: {\"height\":\r\ndata: 42}\r\n\r\nevent:mined_block\n\
                    data:{\"height\":43,\"reward\":1}\nid: 7\n\nevent: other\ndata: {}\n\n\
                    event: new_block\ndata: {\"height\": \"x\"}\n\nevent: new_block\ndata: {\n\n";
        let expect = [
            NodeEvent::Connected { height: Some(41), syncing: true },
            NodeEvent::NewBlock { height: 42 },
            NodeEvent::NewBlock { height: 43 },
        ];
        for piece in 1..40 {
            let mut parser = Parser::default();
            let events: Vec<_> =
                text.as_bytes().chunks(piece).flat_map(|part| parser.feed(part)).collect();
            assert_eq!(events, expect, "in {piece}s");
        }
    }

    #[test]
    fn huge_events_are_skipped_and_not_held() {
        let mut parser = Parser::default();
        for _ in 0..100 {
            assert_eq!(parser.feed(&[b'x'; 10_000]), []);
        }
        assert!(parser.line.capacity() <= 2 * LINE_MAX);
        assert_eq!(parser.feed(b"\n\n"), []);
        parser.feed(b"event: new_block\n");
        for _ in 0..100 {
            parser.feed(&[b"data: ".as_slice(), &[b'1'; 10_000], b"\n"].concat());
        }
        assert!(parser.data.capacity() <= 4 * DATA_MAX);
        assert_eq!(parser.feed(b"\n"), []);
        let next = parser.feed(b"event: new_block\ndata: {\"height\":1}\n\n");
        assert_eq!(next, [NodeEvent::NewBlock { height: 1 }]);
    }
}
