//! Who sends a request, from where, and for whom.

use std::net::IpAddr;

use axum::http::{Extensions, HeaderMap, header};

use super::Site;
use crate::policy::{Credential, Visit};

/// The cookies that carry credentials.
const TOKEN_COOKIE: &str = "shoal_token";
const TICKET_COOKIE: &str = "shoal_ticket";

/// The host of a request, with its port.
fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST).map(|host| host.to_str().unwrap_or("?"))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_loopback(host: &str) -> bool {
    // An IPv6 address without brackets has colons, and no port.
    let bare = host.parse::<IpAddr>().map_or_else(|_| without_port(host), |_| host);
    let name = bare.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// False for a request by another name: a page on a name made to point here would be let in by the
/// browser otherwise.
pub(super) fn names_this_server(site: &Site, headers: &HeaderMap) -> bool {
    let Some(host) = host(headers) else { return true };
    let is_named = |name: &String| {
        host.eq_ignore_ascii_case(name) || without_port(host).eq_ignore_ascii_case(name)
    };
    match site.is_local || !site.hosts.is_empty() {
        true => is_loopback(host) || site.hosts.iter().any(is_named),
        false => true,
    }
}

/// The host in the origin of a page; `None` without an origin, as programs send requests.
fn origin(headers: &HeaderMap) -> Option<(&str, &str)> {
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or("?");
    Some((origin, origin.split_once("://").map_or("?", |(_, host)| host)))
}

pub(super) fn is_same_origin(headers: &HeaderMap) -> bool {
    origin(headers).is_none_or(|(_, from)| host(headers) == Some(from))
}

pub(super) fn may_open_sockets(site: &Site, headers: &HeaderMap) -> bool {
    let Some((origin, from)) = origin(headers) else { return true };
    // Apps under development are served by another port of this machine.
    host(headers) == Some(from)
        || site.is_local && is_loopback(from)
        || site.origins.iter().any(|allowed| allowed == "*" || allowed == origin)
}

/// The value of a member of a query, its escapes undone.
pub(super) fn member(query: Option<&str>, name: &str) -> Option<String> {
    let mut members = query?.split('&').filter_map(|member| member.split_once('='));
    members.find(|(given, _)| *given == name).and_then(|(_, value)| unescaped(value))
}

fn unescaped(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        match first {
            b'%' => {
                let (digits, behind) = rest.split_first_chunk::<2>()?;
                let digits = std::str::from_utf8(digits).ok()?;
                bytes.extend(shoal_stdx::hex::decode(digits).ok()?);
                rest = behind;
            }
            b'+' => bytes.push(b' '),
            &byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).into_iter();
    let mut cookies = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(';'));
    let cookie = cookies.find_map(|cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='))?;
    Some(cookie.to_owned())
}

/// The token behind `Authorization: Bearer`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// The visitor who sent a request: what is in the URL goes before headers, and these before
/// cookies.
pub(super) fn visit(headers: &HeaderMap, query: Option<&str>, extensions: &Extensions) -> Visit {
    let token = || bearer(headers).map(str::to_owned);
    let credential = member(query, "token")
        .map(Credential::Token)
        .or_else(|| member(query, "ticket").map(Credential::Ticket))
        .or_else(|| token().map(Credential::Token))
        .or_else(|| cookie(headers, TOKEN_COOKIE).map(Credential::Token))
        .or_else(|| cookie(headers, TICKET_COOKIE).map(Credential::Ticket));
    let origin = origin(headers).map(|(origin, _)| origin.to_owned());
    Visit { credential, origin, address: super::address(extensions).ip() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine() {
        for host in ["localhost", "localhost:3030", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "::1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com:80", "10.0.0.1", "?", "", "127.0.0.1.x"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn credentials() {
        let of = |query, headers: &[(header::HeaderName, &'static str)]| {
            let headers =
                headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
            visit(&headers.collect(), query, &Extensions::new()).credential
        };
        let token = |text: &str| Some(Credential::Token(text.to_owned()));
        let ticket = |text: &str| Some(Credential::Ticket(text.to_owned()));
        let cookies = [(header::COOKIE, "a=b; shoal_ticket=t; shoal_token=k")];
        let bearer = [(header::AUTHORIZATION, "Bearer k")];
        assert_eq!(of(None, &[]), None);
        assert_eq!(of(Some("x=1&token=a.b-c"), &bearer), token("a.b-c"));
        assert_eq!(of(Some("ticket=a%2Bb"), &cookies), ticket("a+b"));
        assert_eq!(of(Some("tokens=a&token"), &bearer), token("k"));
        assert_eq!(of(None, &cookies), token("k"));
        assert_eq!(of(Some("token=%zz"), &[(header::COOKIE, "shoal_ticket=t")]), ticket("t"));
        assert_eq!(format!("{:?}", token("secret")), "Some(Token(...))");
    }
}
