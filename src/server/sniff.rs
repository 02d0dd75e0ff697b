//! Tells what the first bytes of a connection are, where they are not what the port is for.
//!
//! Without it such a connection just ends, and the usual mistakes, TLS to a plaintext port or the other way round, and a
//! cluster in Envoy that was not set to HTTP/2, look like a network that does not work.

/// So many first bytes tell it.
pub(super) const TELLING: usize = 16;

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spoken {
    pub(super) has_tls: bool,
    pub(super) has_http_1: bool,
}

/// What a client speaks that is not for the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    Tls,
    Plaintext,
    Http1,
    Unknown,
}

impl Mistake {
    pub(super) const ALL: [Self; 4] = [Self::Tls, Self::Plaintext, Self::Http1, Self::Unknown];

    /// What the first bytes of a connection say that is wrong with it. Too few bytes say nothing.
    pub(super) fn of(first: &[u8], spoken: Spoken) -> Option<Self> {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0";
        let compared = first.len().min(PREFACE.len());
        let is_http_2 = first[..compared] == PREFACE[..compared];
        let begins_with = |byte: fn(&u8) -> bool| first.first().is_none_or(byte);
        match spoken {
            // A TLS record of the type handshake.
            Spoken { has_tls: true, .. } if begins_with(|&byte| byte == 0x16) => None,
            Spoken { has_tls: true, .. } if begins_with(u8::is_ascii_uppercase) => Some(Self::Plaintext),
            Spoken { has_tls: true, .. } => Some(Self::Unknown),
            _ if is_http_2 => None,
            _ if matches!(first, [0x16, 0x03, ..] | [0x16]) => Some(Self::Tls),
            Spoken { has_http_1, .. } if begins_with(u8::is_ascii_uppercase) => (!has_http_1).then_some(Self::Http1),
            _ => Some(Self::Unknown),
        }
    }

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

    const GRPC: Spoken = Spoken { has_tls: false, has_http_1: false };
    const HTTP: Spoken = Spoken { has_tls: false, has_http_1: true };
    const TLS: Spoken = Spoken { has_tls: true, has_http_1: true };

    #[test]
    fn the_usual_mistakes_are_told_apart() {
        const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        const HTTP_1: &[u8] = b"POST / HTTP/1.1\r\n";
        const HELLO: &[u8] = &[0x16, 0x03, 0x01];
        for (spoken, first, mistake) in [
            (GRPC, HTTP_2, None),
            (GRPC, b"PRI", None),
            // Too little to say.
            (GRPC, b"P", None),
            (GRPC, HTTP_1, Some(Mistake::Http1)),
            (GRPC, HELLO, Some(Mistake::Tls)),
            (GRPC, b"\0\0", Some(Mistake::Unknown)),
            (HTTP, HTTP_2, None),
            (HTTP, HTTP_1, None),
            (HTTP, HELLO, Some(Mistake::Tls)),
            (HTTP, b"\0\0", Some(Mistake::Unknown)),
            (TLS, HELLO, None),
            (TLS, &[0x16], None),
            (TLS, HTTP_1, Some(Mistake::Plaintext)),
            (TLS, HTTP_2, Some(Mistake::Plaintext)),
            (TLS, b"\0\0", Some(Mistake::Unknown)),
        ] {
            assert_eq!(Mistake::of(first, spoken), mistake, "{first:?} where {spoken:?}");
        }
    }

    #[test]
    fn each_mistake_has_a_place_of_its_own() {
        for (place, mistake) in Mistake::ALL.into_iter().enumerate() {
            assert_eq!(mistake as usize, place);
        }
    }
}
