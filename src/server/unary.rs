//! A gRPC call of one message and one answer, as <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md> frames
//! it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use http_body::{Body, Frame, SizeHint};
use prost::Message;
use tonic::Status;

use super::BoxError;
use super::bounds::UnderWay;
use super::held::Held;
use super::places::Place;

/// What precedes a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// The body of an answer on the gRPC port. The request is under way until it has been sent.
#[derive(Debug)]
pub(super) enum GrpcBody {
    /// A message, and then that all is well.
    Answer { message: Option<Bytes>, has_ended: bool, _under_way: UnderWay },
    /// There is nothing but the head.
    Empty,
    /// What tonic answers.
    Other(Held<tonic::body::Body, Place>),
}

/// Makes sure that a request is a call.
pub(super) fn check<B>(request: &Request<B>) -> Result<(), Status> {
    let content_type = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if content_type.is_some_and(|content_type| content_type.starts_with(GRPC.as_bytes())) {
        return Ok(());
    }
    Err(Status::invalid_argument("the content-type must be application/grpc"))
}

/// The one message of a call.
pub(super) fn unframe(mut body: Bytes) -> Result<Bytes, Status> {
    if body.len() < PREFIX {
        return Err(Status::invalid_argument("the request has no message"));
    }
    let (is_compressed, length) = (body.get_u8() != 0, body.get_u32() as usize);
    if is_compressed {
        return Err(Status::unimplemented("messages must not be compressed"));
    }
    match body.len() {
        there if there < length => Err(Status::invalid_argument("the message is shorter than it says")),
        there if there > length => Err(Status::invalid_argument("there is more than one message in the request")),
        _ => Ok(body),
    }
}

/// The answer to a call.
pub(super) fn answer(message: &impl Message, under_way: UnderWay) -> Result<Response<GrpcBody>, Status> {
    let length = message.encoded_len();
    let too_long = || Status::internal("the answer is longer than gRPC allows");
    let mut frame = BytesMut::with_capacity(PREFIX + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).map_err(|_| too_long())?);
    message.encode(&mut frame).map_err(|_| too_long())?;
    let body = GrpcBody::Answer { message: Some(frame.freeze()), has_ended: false, _under_way: under_way };
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    Ok(response)
}

/// The answer to a call that is not answered.
pub(super) fn refuse(status: &Status) -> Response<GrpcBody> {
    status.clone().into_http::<tonic::body::Body>().map(|_| GrpcBody::Empty)
}

impl Body for GrpcBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Answer { message, has_ended, .. } => Poll::Ready(match message.take() {
                Some(message) => Some(Ok(Frame::data(message))),
                None if *has_ended => None,
                None => {
                    *has_ended = true;
                    let mut trailers = HeaderMap::with_capacity(1);
                    trailers.insert(GRPC_STATUS, OK);
                    Some(Ok(Frame::trailers(trailers)))
                }
            }),
            Self::Empty => Poll::Ready(None),
            Self::Other(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Answer { has_ended, .. } => *has_ended,
            Self::Empty => true,
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Answer { .. } => SizeHint::default(),
            Self::Empty => SizeHint::with_exact(0),
            Self::Other(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_what_its_frame_says() {
        let message = |bytes: &'static [u8]| unframe(Bytes::from_static(bytes)).map_err(|status| status.code());
        assert_eq!(message(b"\0\0\0\0\x02ab").as_deref(), Ok(b"ab".as_slice()));
        assert_eq!(message(b"\0\0\0\0\0").as_deref(), Ok(b"".as_slice()));
        for (bytes, code) in [
            (b"".as_slice(), tonic::Code::InvalidArgument),
            (b"\0\0\0\0", tonic::Code::InvalidArgument),
            (b"\x01\0\0\0\x02ab", tonic::Code::Unimplemented),
            (b"\0\0\0\0\x03ab", tonic::Code::InvalidArgument),
            (b"\0\0\0\0\x01ab", tonic::Code::InvalidArgument),
            (b"\0\xff\xff\xff\xffab", tonic::Code::InvalidArgument),
        ] {
            assert_eq!(message(bytes), Err(code), "{bytes:?}");
        }
    }
}
