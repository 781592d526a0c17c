//! URLs in settings: http or https, a host, and nothing that could hide a secret.

use http::Uri;

/// The parts of an accepted URL.
pub(crate) struct Parts {
    /// Whether the scheme is https.
    pub(crate) secure: bool,
    /// Host as in the URL: an IPv6 address is in brackets.
    pub(crate) host: String,
    /// The port, if the URL has one.
    pub(crate) port: Option<u16>,
    /// Empty or beginning with `/`, as given.
    pub(crate) path: String,
}

/// Splits `url`, or gives the rule that it breaks. The rule never quotes the URL.
pub(crate) fn parse(url: &str) -> Result<Parts, &'static str> {
    const FORM: &str = "must be a URL of the form http://host:port/path";
    if url.len() > 2048 {
        return Err("must have at most 2048 bytes");
    }
    if url.contains(['?', '#']) {
        return Err("must have no query and no fragment");
    }
    let uri: Uri = url.parse().map_err(|_| FORM)?;
    let secure = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(FORM),
    };
    let authority = uri.authority().ok_or(FORM)?.as_str();
    if authority.contains('@') {
        return Err("must have no user and no password");
    }
    let host = uri.host().filter(|host| !host.is_empty()).ok_or(FORM)?;
    let port = match authority.strip_prefix(host) {
        Some("") => None,
        Some(rest) => Some(
            rest.strip_prefix(':')
                .and_then(port)
                .ok_or("must have a port from 1 to 65535")?,
        ),
        None => return Err(FORM),
    };
    // `Uri::path` turns an empty path into "/"; the two are told apart here.
    let path = match url
        .split_once("://")
        .and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]))
    {
        Some(path) => path.to_owned(),
        None => String::new(),
    };
    Ok(Parts {
        secure,
        host: host.to_ascii_lowercase(),
        port,
        path,
    })
}

fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}
