//! What an application's message begins with, so that requests and their replies are told apart
//! from others. It is sealed as the rest of the message is.

use tidegate_core::headers;

headers! {
    /// Messages of applications: what each of them is.
    pub enum Head = "message", version 1, port 52796;
    /// Nobody answers it.
    Plain = 0 {
        flags {}
        fields {}
    }
    /// To be answered.
    Request = 1 {
        flags {}
        fields {
            /// Its sender's number of it: no two of a session have one.
            number: u64,
        }
    }
    /// Answers a request.
    Reply = 2 {
        flags {}
        fields {
            /// The request's.
            number: u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::wire::Header as _;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let (plain, number) = (Plain {}, 1 << 40);
        for (head, bytes) in [
            (Head::Plain(plain), 4),
            (Head::Request(Request { number }), 12),
            (Head::Reply(Reply { number }), 12),
        ] {
            let mut message = vec![0; bytes];
            assert_eq!(head.emit(&mut message), Ok(bytes));
            message.extend_from_slice(b"body");
            assert_eq!(Head::parse(&message), Ok((head, &b"body"[..])));
            assert!(Head::parse(&message[..bytes - 1]).is_err());
        }
    }
}
