//! Tells what the first bytes of a connection are: what the port is for, or something else.
//!
//! Without it a connection with something else just ends, and the usual mistakes, TLS to a plaintext port or the other way
//! round, and a cluster in Envoy that was not set to HTTP/2, look like a network that does not work.

/// How HTTP/2 begins: RFC 9113, section 3.4.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// So many first bytes tell everything.
pub(super) const TELLING: usize = PREFACE.len();

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spoken {
    pub(super) has_tls: bool,
    pub(super) has_http_1: bool,
}

/// What the first bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Too few to say.
    Unclear,
    /// What the port is for.
    Right,
    Wrong(Mistake),
}

/// What a client speaks that is not for the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    Tls,
    Plaintext,
    Http1,
    Unknown,
}

impl Spoken {
    /// Looks at the first bytes of a connection to a port that speaks TLS.
    pub(super) fn look_at_tls(first: &[u8]) -> Beginning {
        match first {
            [] => Beginning::Unclear,
            // A record of the type handshake.
            [0x16, ..] => Beginning::Right,
            [b'A'..=b'Z', ..] => Beginning::Wrong(Mistake::Plaintext),
            _ => Beginning::Wrong(Mistake::Unknown),
        }
    }

    /// Looks at the first bytes of HTTP: within TLS, if that is spoken.
    pub(super) fn look_at_http(self, first: &[u8]) -> Beginning {
        let compared = first.len().min(TELLING);
        if first[..compared] == PREFACE[..compared] {
            return if compared == TELLING { Beginning::Right } else { Beginning::Unclear };
        }
        match first {
            [0x16] if !self.has_tls => Beginning::Unclear,
            [0x16, 0x03, ..] if !self.has_tls => Beginning::Wrong(Mistake::Tls),
            [b'A'..=b'Z', ..] if self.has_http_1 => Beginning::Right,
            [b'A'..=b'Z', ..] => Beginning::Wrong(Mistake::Http1),
            _ => Beginning::Wrong(Mistake::Unknown),
        }
    }
}

impl Mistake {
    pub(super) const ALL: [Self; 4] = [Self::Tls, Self::Plaintext, Self::Http1, Self::Unknown];

    /// What has happened on the port of this name, and what to do about it.
    pub(super) fn advice(self, port: &str) -> String {
        match (self, port) {
            (Self::Tls, "gRPC") => "a client speaks TLS to the gRPC port, which is plaintext: remove transport_socket \
                                    from Envoy's cluster, or give --grpc-tls-cert and --grpc-tls-key"
                .to_owned(),
            (Self::Tls, port) => format!("a client speaks TLS to the {port} port, which is plaintext"),
            (Self::Plaintext, "gRPC") => "a client speaks plaintext to the gRPC port, which wants TLS: set \
                                          transport_socket in Envoy's cluster"
                .to_owned(),
            (Self::Plaintext, port) => format!("a client speaks plaintext to the {port} port, which wants TLS"),
            (Self::Http1, port) => format!(
                "a client speaks HTTP/1 to the {port} port: set http2_protocol_options in Envoy's cluster, or send JSON \
                 to the port of --http-addr"
            ),
            (Self::Unknown, port) => {
                format!("a client speaks something to the {port} port that is neither HTTP nor anything else known")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTTP_1: &[u8] = b"POST / HTTP/1.1\r\n";
    const HELLO: &[u8] = &[0x16, 0x03, 0x01];

    #[test]
    fn the_usual_mistakes_are_told_apart() {
        use Beginning::{Right, Unclear, Wrong};
        for (has_http_1, first, beginning) in [
            (false, PREFACE.as_slice(), Right),
            // All of it: a client that says less has asked for nothing.
            (false, &PREFACE[..23], Unclear),
            (false, b"P", Unclear),
            (false, b"", Unclear),
            (false, HTTP_1, Wrong(Mistake::Http1)),
            (false, b"G", Wrong(Mistake::Http1)),
            (false, HELLO, Wrong(Mistake::Tls)),
            (false, b"\0\0", Wrong(Mistake::Unknown)),
            (true, PREFACE, Right),
            (true, HTTP_1, Right),
            (true, b"P", Unclear),
            (true, HELLO, Wrong(Mistake::Tls)),
            (true, b"\0\0", Wrong(Mistake::Unknown)),
        ] {
            let spoken = Spoken { has_tls: false, has_http_1 };
            assert_eq!(spoken.look_at_http(first), beginning, "{first:?} where {spoken:?}");
        }
    }

    #[test]
    fn within_tls_the_same_mistakes_are_told_apart() {
        use Beginning::{Right, Unclear, Wrong};
        for (first, beginning) in [
            (b"".as_slice(), Unclear),
            (HELLO, Right),
            (&[0x16], Right),
            (HTTP_1, Wrong(Mistake::Plaintext)),
            (PREFACE, Wrong(Mistake::Plaintext)),
            (b"\0\0", Wrong(Mistake::Unknown)),
        ] {
            assert_eq!(Spoken::look_at_tls(first), beginning, "{first:?}");
        }
        let spoken = Spoken { has_tls: true, has_http_1: false };
        assert_eq!(spoken.look_at_http(HTTP_1), Wrong(Mistake::Http1));
        assert_eq!(spoken.look_at_http(HELLO), Wrong(Mistake::Unknown), "there is TLS already");
    }

    #[test]
    fn each_mistake_has_a_place_of_its_own() {
        for (place, mistake) in Mistake::ALL.into_iter().enumerate() {
            assert_eq!(mistake as usize, place);
        }
    }
}
