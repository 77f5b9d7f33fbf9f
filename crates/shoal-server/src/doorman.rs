//! The doorman: who is let in, and who has to go while a socket is open.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
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
    /// Documents asked about, and when to ask again.
    asked: BTreeMap<DocumentId, Instant>,
}

/// Knows who is here by which right.
pub(crate) struct Doorman {
    policy: Arc<dyn SharePolicy>,
    admission: Option<Arc<Admission>>,
    environment: Environment,
    figures: Arc<Figures>,
    sessions: Mutex<BTreeMap<ConnectionId, Session>>,
    asking: Arc<Semaphore>,
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
        Self { policy, admission, environment, figures, sessions, asking }
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

    /// Lets a visitor in; with a fault, only to be told so.
    pub(crate) fn open(&self, connection: ConnectionId, visit: Visit) -> (Access, Option<Fault>) {
        match self.judge(&visit) {
            Ok(verdict) => {
                let session = Session {
                    visit: Arc::new(visit),
                    expires_s: verdict.expires_s,
                    asked: BTreeMap::new(),
                };
                self.sessions().insert(connection, session);
                (verdict.access, None)
            }
            Err(fault) => (Access::default(), Some(fault)),
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
        let mut version = self.policy.version();
        loop {
            tokio::select! {
                question = questions.recv() => {
                    let Some((connection, document)) = question else { return };
                    self.ask(&engine, connection, document);
                }
                _ = looks.tick() => {
                    let now = self.policy.version();
                    let is_new = std::mem::replace(&mut version, now) != now;
                    self.figures.policy_failures.store(self.policy.failures(), Ordering::Relaxed);
                    if let Some(admission) = &self.admission {
                        admission.look();
                    }
                    for event in self.look(is_new) {
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
    fn look(&self, is_new: bool) -> Vec<Event> {
        let now_s = self.now_s();
        let mut events = Vec::new();
        let mut gone = Vec::new();
        let mut sessions = self.sessions();
        for (&connection, session) in sessions.iter_mut() {
            let has_expired = session.expires_s.is_some_and(|expires| expires <= now_s);
            if !has_expired && !is_new {
                continue;
            }
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
