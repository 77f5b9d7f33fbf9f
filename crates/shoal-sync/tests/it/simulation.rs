//! Whole systems by seed: clients and a server, links losing frames in flight, crashes losing
//! uncommitted changes. At the end everybody has everything, and every head ever told by the server
//! is durable there.
//!
//! `SHOAL_SYNC_SEEDS=100000` runs more of them, `SHOAL_SYNC_SEED=7` one.

use std::collections::{BTreeMap, VecDeque};
use std::env;

use shoal_history::{ChangeHash, SyncMessage};
use shoal_sync::{
    Access, Config, ConnectionId, DocumentId, Effect, Event, Frame, Hub, Limits, Message, Metadata,
    Role,
};

use crate::disk::Disk;

/// xorshift64*: the same numbers for a seed, everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).expect("31 bits") % bound
    }
}

/// A hub with its storage.
struct Node {
    hub: Hub,
    disk: Disk,
    name: String,
    storage: Option<String>,
    starts: u32,
}

impl Node {
    fn new(name: &str, has_storage: bool) -> Self {
        let storage = has_storage.then(|| format!("storage of {name}"));
        let hub = Self::hub(name, storage.as_ref());
        Self { hub, disk: Disk::default(), name: name.to_owned(), storage, starts: 0 }
    }

    fn hub(name: &str, storage: Option<&String>) -> Hub {
        let metadata = Metadata { storage_id: storage.cloned(), is_ephemeral: storage.is_none() };
        let limits = Limits { remembered: 3, idle_ms: 50, ..Limits::default() };
        Hub::new(Config { peer_id: name.to_owned(), metadata, limits })
    }

    fn crash(&mut self) {
        self.disk.crash();
        self.starts += 1;
        self.hub = Self::hub(&self.name, self.storage.as_ref());
    }
}

/// A connection of a client: frames on their way, both ways.
struct Link {
    connection: ConnectionId,
    up: VecDeque<Vec<u8>>,
    down: VecDeque<Vec<u8>>,
}

struct World {
    random: Random,
    now_ms: u64,
    server: Node,
    clients: Vec<Node>,
    links: BTreeMap<usize, Link>,
    documents: Vec<DocumentId>,
    next_connection: u64,
    /// Heads told by the server.
    told: Vec<(DocumentId, ChangeHash)>,
    edits: i64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let count = 2 + random.below(3);
        let documents = (0..1 + random.below(2))
            .map(|at| DocumentId::from_bytes([u8::try_from(at).expect("few"); 16]));
        let documents: Vec<DocumentId> = documents.collect();
        let mut clients = Vec::new();
        for at in 0..count {
            clients.push(Node::new(&format!("client {at}"), random.below(2) == 0));
        }
        let mut world = Self {
            random,
            now_ms: 0,
            server: Node::new("server", true),
            clients,
            links: BTreeMap::new(),
            documents,
            next_connection: 0,
            told: Vec::new(),
            edits: 0,
        };
        for client in 0..count {
            world.follow(client);
        }
        world
    }

    fn follow(&mut self, client: usize) {
        for document in self.documents.clone() {
            self.clients[client].hub.handle(self.now_ms, Event::Follow { document });
        }
        self.client_effects(client);
    }

    fn connect(&mut self, client: usize) {
        self.next_connection += 1;
        let connection = ConnectionId(self.next_connection);
        let link = Link { connection, up: VecDeque::new(), down: VecDeque::new() };
        self.links.insert(client, link);
        let event = |role| Event::Connected { connection, role, access: Access::all() };
        self.server.hub.handle(self.now_ms, event(Role::Accepting));
        self.clients[client].hub.handle(self.now_ms, event(Role::Dialing));
        self.client_effects(client);
    }

    /// Cuts a link: frames in flight are lost.
    fn cut(&mut self, client: usize) {
        let Some(link) = self.links.remove(&client) else { return };
        let closed = || Event::Closed { connection: link.connection };
        self.server.hub.handle(self.now_ms, closed());
        self.clients[client].hub.handle(self.now_ms, closed());
        self.client_effects(client);
        self.server_effects();
    }

    fn client_effects(&mut self, client: usize) {
        let node = &mut self.clients[client];
        for effect in node.hub.take_effects() {
            match node.disk.take(effect) {
                Some(Effect::Send { connection, bytes }) => {
                    node.hub.handle(self.now_ms, Event::Sent { connection, bytes: bytes.len() });
                    if let Some(link) = self.links.get_mut(&client)
                        && link.connection == connection
                    {
                        link.up.push_back(bytes);
                    }
                }
                Some(Effect::Close { fault, .. }) => panic!("a client closes: {fault}"),
                _ => {}
            }
        }
    }

    fn server_effects(&mut self) {
        let effects = self.server.hub.take_effects();
        for effect in effects {
            match self.server.disk.take(effect) {
                Some(Effect::Send { connection, bytes }) => {
                    let sent = Event::Sent { connection, bytes: bytes.len() };
                    self.server.hub.handle(self.now_ms, sent);
                    self.note_told(&bytes);
                    let mut links = self.links.values_mut();
                    if let Some(link) = links.find(|link| link.connection == connection) {
                        link.down.push_back(bytes);
                    }
                }
                Some(Effect::Close { fault, .. }) => panic!("the server closes: {fault}"),
                _ => {}
            }
        }
    }

    /// Told implies durable: looked at when the message is made.
    fn note_told(&mut self, bytes: &[u8]) {
        let frame = Frame::decode(bytes, &Limits::default()).expect("the server writes frames");
        let Message::Sync { document, data, .. } = frame.message else { return };
        let message = SyncMessage::decode(&data).expect("the server writes sync messages");
        let durable = self.server.disk.durable(&document);
        for head in message.heads {
            assert!(durable.change_by_hash(&head).is_some(), "a head is told and not durable");
            self.told.push((document.clone(), head));
        }
    }

    fn deliver_up(&mut self, client: usize) {
        let Some(link) = self.links.get_mut(&client) else { return };
        let Some(bytes) = link.up.pop_front() else { return };
        let connection = link.connection;
        self.server.hub.handle(self.now_ms, Event::Frame { connection, bytes });
        if self.random.below(2) == 0 {
            self.server_effects();
        }
    }

    fn deliver_down(&mut self, client: usize) {
        let Some(link) = self.links.get_mut(&client) else { return };
        let Some(bytes) = link.down.pop_front() else { return };
        let connection = link.connection;
        self.clients[client].hub.handle(self.now_ms, Event::Frame { connection, bytes });
        self.client_effects(client);
    }

    fn client_work(&mut self, client: usize) {
        for event in self.clients[client].disk.work() {
            self.clients[client].hub.handle(self.now_ms, event);
        }
        self.client_effects(client);
    }

    fn server_work(&mut self) {
        for event in self.server.disk.work() {
            self.server.hub.handle(self.now_ms, event);
        }
        self.server_effects();
    }

    fn edit(&mut self, client: usize) {
        let at = self.random.below(self.documents.len());
        let document = self.documents[at].clone();
        let node = &mut self.clients[client];
        if !node.disk.is_open(&document) {
            return;
        }
        self.edits += 1;
        // After a crash a client is somebody else, for its last changes may be known to others.
        let starts = u8::try_from(node.starts).expect("few crashes");
        let actor = u8::try_from(client).expect("few clients") * 64 + starts;
        let key = format!("k{}", self.edits % 5);
        let event = node.disk.edit(&document, actor, &key, self.edits);
        node.hub.handle(self.now_ms, event);
        self.client_effects(client);
    }

    fn crash_server(&mut self) {
        for client in 0..self.clients.len() {
            if let Some(link) = self.links.remove(&client) {
                let closed = Event::Closed { connection: link.connection };
                self.clients[client].hub.handle(self.now_ms, closed);
                self.client_effects(client);
            }
        }
        self.server.crash();
    }

    fn crash_client(&mut self, client: usize) {
        self.cut(client);
        self.clients[client].crash();
        self.follow(client);
    }

    fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        self.server.hub.handle(self.now_ms, Event::Tick);
        self.server_effects();
        for client in 0..self.clients.len() {
            self.clients[client].hub.handle(self.now_ms, Event::Tick);
            self.client_effects(client);
        }
    }

    fn step(&mut self) {
        let client = self.random.below(self.clients.len());
        match self.random.below(100) {
            0..=29 => self.deliver_up(client),
            30..=59 => self.deliver_down(client),
            60..=71 => self.edit(client),
            72..=79 => self.client_work(client),
            80..=89 => self.server_work(),
            90..=93 if !self.links.contains_key(&client) => self.connect(client),
            94 => self.cut(client),
            95 => self.crash_server(),
            96 if self.clients[client].starts < 60 => self.crash_client(client),
            _ => self.tick(10),
        }
    }

    /// Heals every link, and lets the world come to rest.
    fn settle(&mut self) {
        for client in 0..self.clients.len() {
            if !self.links.contains_key(&client) {
                self.connect(client);
            }
        }
        for round in 0.. {
            assert!(round < 500, "the peers talk without end");
            let mut is_quiet = !self.server.disk.has_work();
            self.server_work();
            for client in 0..self.clients.len() {
                is_quiet &= !self.clients[client].disk.has_work();
                self.client_work(client);
                let link = &self.links[&client];
                is_quiet &= link.up.is_empty() && link.down.is_empty();
                while !self.links[&client].up.is_empty() {
                    self.deliver_up(client);
                }
                self.server_effects();
                while !self.links[&client].down.is_empty() {
                    self.deliver_down(client);
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn check(&self, seed: u64) {
        for document in &self.documents {
            let here = self.server.disk.durable(document);
            for client in &self.clients {
                let there = client.disk.durable(document);
                assert_eq!(there.heads(), here.heads(), "seed {seed}: {} differs", client.name);
            }
        }
        for (document, head) in &self.told {
            let here = self.server.disk.durable(document);
            assert!(here.change_by_hash(head).is_some(), "seed {seed}: a told head is lost");
        }
    }
}

fn run(seed: u64) -> i64 {
    let mut world = World::new(seed);
    for _ in 0..200 {
        world.step();
    }
    world.settle();
    world.check(seed);
    world.edits
}

#[test]
fn everybody_ends_equal_and_nothing_told_is_lost() {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("SHOAL_SYNC_SEED") {
        run(seed);
        return;
    }
    let seeds = number("SHOAL_SYNC_SEEDS").unwrap_or(2000);
    let edits: i64 = (0..seeds).map(run).sum();
    assert!(edits > i64::try_from(seeds).expect("few"), "hardly anything was edited");
}
