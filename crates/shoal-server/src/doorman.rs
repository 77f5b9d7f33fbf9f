//! The doorman: who is let in, and who has to go while a socket is open.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shoal::Environment;
use shoal_sync::{Access, ConnectionId, DocumentId, Event, Fault, Rights};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, interval};

use crate::admission::Admission;
use crate::engine::{Engine, Input};
use crate::policy::{Credential, SharePolicy, Verdict, Visit};
use crate::storage::Figures;

/// How often credentials are looked at again.
const LOOK: Duration = Duration::from_millis(500);
/// Questions to a policy about single documents, at a time.
const ASKING: usize = 64;

struct Session {
    visit: Arc<Visit>,
    expires_s: Option<u64>,
    /// The policy's version known before the verdict: another one asks for a new verdict.
    version: u64,
    /// Documents asked about, and when to ask again.
    asked: BTreeMap<DocumentId, Instant>,
}

/// Knows who is here by which right.
pub(crate) struct Doorman {
    policy: Arc<dyn SharePolicy>,
    admission: Option<Arc<Admission>>,
    environment: Environment,
    figures: Arc<Figures>,
    /// The policy's version at the last look.
    version: AtomicU64,
    sessions: Mutex<BTreeMap<ConnectionId, Session>>,
    asking: Arc<Semaphore>,
}

/// The verdict on a visitor whose connection the engine does not know yet.
pub(crate) struct Guest {
    pub(crate) access: Access,
    /// Why the visitor has to go as soon as they have been answered.
    pub(crate) refusal: Option<Fault>,
    session: Option<Session>,
}

impl Doorman {
    pub(crate) fn new(
        policy: Arc<dyn SharePolicy>,
        admission: Option<Arc<Admission>>,
        environment: Environment,
        figures: Arc<Figures>,
    ) -> Self {
        let asking = Arc::new(Semaphore::new(ASKING));
        let sessions = Mutex::default();
        let version = AtomicU64::new(policy.version());
        Self { policy, admission, environment, figures, version, sessions, asking }
    }

    pub(crate) fn now_s(&self) -> u64 {
        u64::try_from(self.environment.now_seconds()).unwrap_or(0)
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, BTreeMap<ConnectionId, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The verdict on a visitor, of a ticket or of the policy.
    pub(crate) fn judge(&self, visit: &Visit) -> Result<Verdict, Fault> {
        if let (Some(Credential::Ticket(ticket)), Some(admission)) =
            (&visit.credential, &self.admission)
        {
            let mut verdict = admission.verdict(ticket, self.now_s())?;
            // Whoever has paid may do what anyone may.
            let nobody = Visit { credential: None, ..visit.clone() };
            if let Ok(anyone) = self.policy.admit(&nobody) {
                verdict.access.others = verdict.access.others.max(anyone.access.others);
            }
            return Ok(verdict);
        }
        let verdict = self.policy.admit(visit);
        match verdict {
            Err(Fault::NoToken) if self.admission.is_some() => Err(Fault::Unpaid),
            Ok(verdict) if verdict.expires_s.is_some_and(|expires| expires <= self.now_s()) => {
                Err(Fault::Expired)
            }
            verdict => verdict,
        }
    }

    /// The rights to a single document, of a visitor without a socket.
    pub(crate) async fn rights(
        &self,
        visit: &Visit,
        verdict: &Verdict,
        document: &DocumentId,
    ) -> Rights {
        match verdict.access.asks && !verdict.access.documents.contains_key(document) {
            true => self.policy.ask(visit, document).await.0,
            false => verdict.access.to(document),
        }
    }

    /// Judges a visitor; [`Self::enter`] follows once the engine knows the connection.
    pub(crate) fn receive(&self, visit: Visit) -> Guest {
        let version = self.version.load(Ordering::Acquire);
        match self.judge(&visit) {
            Ok(verdict) => {
                let session = Session {
                    visit: Arc::new(visit),
                    expires_s: verdict.expires_s,
                    version,
                    asked: BTreeMap::new(),
                };
                Guest { access: verdict.access, refusal: None, session: Some(session) }
            }
            Err(fault) => Guest { access: Access::default(), refusal: Some(fault), session: None },
        }
    }

    /// Watches over a connection from now on. A token revoked since its verdict is found by the
    /// next look, whose word reaches the engine behind the connection itself.
    pub(crate) fn enter(&self, connection: ConnectionId, guest: Guest) {
        if let Some(session) = guest.session {
            self.sessions().insert(connection, session);
        }
    }

    pub(crate) fn close(&self, connection: ConnectionId) {
        self.sessions().remove(&connection);
    }

    /// Looks at credentials again, and answers questions about documents, until the engine stops.
    pub(crate) async fn watch(
        self: Arc<Self>,
        engine: Engine,
        mut questions: mpsc::UnboundedReceiver<(ConnectionId, DocumentId)>,
    ) {
        let mut looks = interval(LOOK);
        loop {
            tokio::select! {
                question = questions.recv() => {
                    let Some((connection, document)) = question else { return };
                    self.ask(&engine, connection, document);
                }
                _ = looks.tick() => {
                    self.version.store(self.policy.version(), Ordering::Release);
                    self.figures.policy_failures.store(self.policy.failures(), Ordering::Relaxed);
                    if let Some(admission) = &self.admission {
                        admission.look();
                    }
                    for event in self.look() {
                        if engine.send(Input::Event(event)).await.is_err() {
                            return;
                        }
                    }
                    for (connection, document) in self.due() {
                        self.ask(&engine, connection, document);
                    }
                }
            }
        }
    }

    /// Who has to go, and whose rights are others now.
    fn look(&self) -> Vec<Event> {
        let now_s = self.now_s();
        let version = self.version.load(Ordering::Acquire);
        let mut events = Vec::new();
        let mut gone = Vec::new();
        let mut sessions = self.sessions();
        for (&connection, session) in sessions.iter_mut() {
            let has_expired = session.expires_s.is_some_and(|expires| expires <= now_s);
            if !has_expired && session.version == version {
                continue;
            }
            session.version = version;
            let verdict =
                if has_expired { Err(Fault::Expired) } else { self.judge(&session.visit) };
            match verdict {
                Ok(Verdict { access, expires_s, .. }) => {
                    session.expires_s = expires_s;
                    events.push(Event::Admit { connection, access });
                }
                Err(fault) => {
                    gone.push(connection);
                    events.push(Event::Refuse { connection, fault });
                }
            }
        }
        for connection in gone {
            sessions.remove(&connection);
        }
        events
    }

    /// Documents whose rights were told long enough ago.
    fn due(&self) -> Vec<(ConnectionId, DocumentId)> {
        let now = Instant::now();
        let mut due = Vec::new();
        for (&connection, session) in self.sessions().iter_mut() {
            session.asked.retain(|document, at| {
                let is_due = *at <= now;
                if is_due {
                    due.push((connection, document.clone()));
                }
                !is_due
            });
        }
        due
    }

    fn ask(self: &Arc<Self>, engine: &Engine, connection: ConnectionId, document: DocumentId) {
        let Some(visit) = self.sessions().get(&connection).map(|it| Arc::clone(&it.visit)) else {
            return;
        };
        let (this, engine) = (Arc::clone(self), engine.clone());
        tokio::spawn(async move {
            let Ok(_place) = Arc::clone(&this.asking).acquire_owned().await else { return };
            let (rights, lasts) = this.policy.ask(&visit, &document).await;
            let again = Instant::now().checked_add(lasts);
            if let (true, Some(again), Some(session)) =
                (rights != Rights::None, again, this.sessions().get_mut(&connection))
            {
                session.asked.insert(document.clone(), again);
            }
            let answered = Event::Answered { connection, document, rights };
            let _ = engine.send(Input::Event(answered)).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Lets everyone in until revoked.
    #[derive(Default)]
    struct Revocable(AtomicBool);

    impl SharePolicy for Revocable {
        fn admit(&self, _: &Visit) -> Result<Verdict, Fault> {
            match self.0.load(Ordering::Relaxed) {
                true => Err(Fault::Revoked),
                false => Ok(Verdict { access: Access::all(), ..Verdict::default() }),
            }
        }

        fn version(&self) -> u64 {
            u64::from(self.0.load(Ordering::Relaxed))
        }
    }

    /// A token revoked, and a look taken, between the verdict and the entry: the socket once
    /// stayed.
    #[test]
    fn a_token_revoked_before_the_entry_ends_its_socket() {
        let policy = Arc::new(Revocable::default());
        let figures = Arc::new(Figures::default());
        let doorman = Doorman::new(policy.clone(), None, Environment::os(), figures);
        let visit = Visit { credential: None, origin: None, address: Ipv4Addr::LOCALHOST.into() };
        let guest = doorman.receive(visit);
        assert_eq!(guest.refusal, None);
        policy.0.store(true, Ordering::Relaxed);
        doorman.version.store(policy.version(), Ordering::Release);
        assert!(doorman.look().is_empty());
        doorman.enter(ConnectionId(1), guest);
        let events = doorman.look();
        assert!(matches!(events[..], [Event::Refuse { fault: Fault::Revoked, .. }]), "{events:?}");
        assert!(doorman.sessions().is_empty());
    }
}
