//! A client that sends the same bytes for each request, the head and the message in one piece, as Envoy does. So what it
//! costs the server is the same every time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::{BufMut, Bytes, BytesMut};

/// Opens a connection: no settings of our own, and a window for all the answers that there will be.
const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x04\x08\0\0\0\0\0\x40\0\0\0";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;

const END_STREAM: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 1;
const END_HEADERS: u8 = 4;

/// Length, type, flags and stream of a frame.
const FRAME_HEAD: usize = 9;

/// What precedes a message of gRPC.
const MESSAGE_HEAD: usize = 5;

pub(crate) struct Connection {
    stream: TcpStream,
    head: Vec<u8>,
    next_stream: u32,
}

impl Connection {
    /// A connection for calls of the method at this path.
    pub(crate) fn open(address: SocketAddr, path: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(OPENING).unwrap();
        // :method POST and :scheme http are numbers of HPACK's table; so are the names of the next three.
        let mut head = vec![0x83, 0x86];
        for (name, value) in [(&[0x04][..], path), (&[0x01], "comporta"), (&[0x0f, 0x10], "application/grpc")] {
            head.extend_from_slice(name);
            put_text(&mut head, value);
        }
        head.push(0);
        put_text(&mut head, "te");
        put_text(&mut head, "trailers");
        Self { stream, head, next_stream: 1 }
    }

    /// What is answered to a message.
    pub(crate) fn call(&mut self, message: &[u8]) -> Bytes {
        let stream = self.next_stream;
        self.next_stream += 2;
        let mut request = BytesMut::new();
        put_frame_head(&mut request, self.head.len(), HEADERS, END_HEADERS, stream);
        request.put_slice(&self.head);
        put_frame_head(&mut request, MESSAGE_HEAD + message.len(), DATA, END_STREAM, stream);
        request.put_u8(0);
        request.put_u32(message.len().try_into().unwrap());
        request.put_slice(message);
        self.stream.write_all(&request).unwrap();
        let mut answer = BytesMut::new();
        loop {
            let (kind, flags, of_stream, payload) = self.read_frame();
            match kind {
                SETTINGS if flags & ACKNOWLEDGEMENT == 0 => self.acknowledge_settings(),
                DATA if of_stream == stream => answer.put_slice(&payload),
                _ => {}
            }
            if of_stream == stream && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                assert!(answer.len() > MESSAGE_HEAD, "no message was answered");
                return answer.split_off(MESSAGE_HEAD).freeze();
            }
        }
    }

    fn read_frame(&mut self) -> (u8, u8, u32, Vec<u8>) {
        let mut head = [0; FRAME_HEAD];
        self.stream.read_exact(&mut head).unwrap();
        let [l1, l2, l3, kind, flags, s1, s2, s3, s4] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, l1, l2, l3]).try_into().unwrap()];
        self.stream.read_exact(&mut payload).unwrap();
        (kind, flags, u32::from_be_bytes([s1, s2, s3, s4]), payload)
    }

    fn acknowledge_settings(&mut self) {
        let mut frame = BytesMut::new();
        put_frame_head(&mut frame, 0, SETTINGS, ACKNOWLEDGEMENT, 0);
        self.stream.write_all(&frame).unwrap();
    }
}

fn put_frame_head(frame: &mut BytesMut, length: usize, kind: u8, flags: u8, stream: u32) {
    frame.put_uint(length as u64, 3);
    frame.put_u8(kind);
    frame.put_u8(flags);
    frame.put_u32(stream);
}

/// A text of fewer than 127 bytes, as it is.
fn put_text(head: &mut Vec<u8>, text: &str) {
    head.push(text.len().try_into().unwrap());
    head.extend_from_slice(text.as_bytes());
}
