//! Requests on their way to the service: each is judged by its token.

use std::net::{IpAddr, Ipv4Addr};

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    SchemaResult, Ticket,
};
use base64ct::{Base64, Encoding};
use shoal_server::{Bearers, NotAdmitted};
use tonic::{Request, Response, Status, Streaming};

use crate::readers::Caller;
use crate::service::Service;

/// Letters of a header with a token; tokens of `shoal token` are far shorter.
const HEADER_MAX: usize = 16 << 10;

/// An admitted request: its principal, and its token.
#[derive(Clone)]
pub(crate) struct Admitted(pub(crate) Caller, pub(crate) Option<String>);

/// The judge in front of the service.
pub(crate) struct Door {
    pub(crate) service: Service,
    pub(crate) bearers: Bearers,
}

type Answer<T> = Result<Response<T>, Status>;

impl Door {
    /// Judges a request by its token.
    fn admit<T>(&self, mut request: Request<T>) -> Result<Request<T>, Status> {
        let token = token(&request);
        let from = request.remote_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |at| at.ip());
        match self.bearers.judge(token.as_deref().map(str::as_bytes), from) {
            Ok(principal) => {
                let caller = principal.map(|principal| principal.as_str().into());
                request.extensions_mut().insert(Admitted(caller, token));
                Ok(request)
            }
            Err(NotAdmitted::NoToken(why)) => Err(Status::unauthenticated(why)),
            Err(NotAdmitted::NoPrincipal(why)) => Err(Status::permission_denied(why)),
        }
    }
}

/// The token behind `authorization: Bearer`, or the password behind `authorization: Basic`: the way
/// that clients with a user's name and a password send a token.
fn token<T>(request: &Request<T>) -> Option<String> {
    let header = request.metadata().get("authorization")?.to_str().ok()?;
    if header.len() > HEADER_MAX {
        return None;
    }
    let (scheme, rest) = header.split_once(' ')?;
    match scheme {
        _ if scheme.eq_ignore_ascii_case("bearer") => Some(rest.to_owned()),
        _ if scheme.eq_ignore_ascii_case("basic") => {
            let pair = String::from_utf8(Base64::decode_vec(rest.trim()).ok()?).ok()?;
            pair.split_once(':').map(|(_, password)| password.to_owned())
        }
        _ => None,
    }
}

#[tonic::async_trait]
impl FlightService for Door {
    type HandshakeStream = <Service as FlightService>::HandshakeStream;
    type ListFlightsStream = <Service as FlightService>::ListFlightsStream;
    type DoGetStream = <Service as FlightService>::DoGetStream;
    type DoPutStream = <Service as FlightService>::DoPutStream;
    type DoActionStream = <Service as FlightService>::DoActionStream;
    type ListActionsStream = <Service as FlightService>::ListActionsStream;
    type DoExchangeStream = <Service as FlightService>::DoExchangeStream;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        self.service.handshake(self.admit(request)?).await
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        self.service.list_flights(self.admit(request)?).await
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        self.service.get_flight_info(self.admit(request)?).await
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        self.service.poll_flight_info(self.admit(request)?).await
    }

    /// The schema of a command's answer, found as for its rows.
    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        let info = self.service.get_flight_info(self.admit(request)?).await?;
        Ok(Response::new(SchemaResult { schema: info.into_inner().schema }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        self.service.do_get(self.admit(request)?).await
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        self.service.do_put(self.admit(request)?).await
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        self.service.do_action(self.admit(request)?).await
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        self.service.list_actions(self.admit(request)?).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        self.service.do_exchange(self.admit(request)?).await
    }
}
