//! The store of the example, with several clients.
#![cfg(target_os = "linux")]

#[path = "../examples/key_value/store.rs"]
mod store;

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use store::Store;
use tidegate_endpoint::host::{Error, Host};

const TIMEOUT: Duration = Duration::from_secs(60);

fn host() -> Host {
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Host::bind(anywhere, store::config("sixteen bytes at least")).unwrap()
}

fn client(host: &Host, server: &Host) -> Store {
    Store(host.connect(server.address()).wait_for(TIMEOUT).unwrap())
}

#[test]
fn put_get_and_delete() {
    let server = host();
    let (first, second) = (host(), host());
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(store::serve(&server), Error::Closed));
        let checks = scope.spawn(|| {
            let (one, other) = (client(&first, &server), client(&second, &server));
            assert_eq!(one.get("colour"), Ok(None));
            assert_eq!(one.put("colour", b"blue"), Ok(None));
            assert_eq!(other.get("colour"), Ok(Some("blue".into())));
            assert_eq!(other.put("colour", b""), Ok(Some("blue".into())));
            assert_eq!(one.delete("colour"), Ok(Some("".into())));
            assert_eq!(other.get("colour"), Ok(None));
            for nonsense in [&b""[..], &[0, 0, 0], &[9, 0, 0, 0, 1, b'k'], &[0, 255, 0, 0, 0]] {
                let outcome = one.0.request(nonsense).wait_for(TIMEOUT);
                assert_eq!(outcome, Err(Error::Unanswered), "{nonsense:?}");
            }
            // Sequential operations of each client, with concurrent clients.
            thread::scope(|scope| {
                for (i, store) in [&one, &other, &one, &other].into_iter().enumerate() {
                    scope.spawn(move || {
                        for n in 0..50 {
                            let (key, value) = (format!("{i} {n}"), vec![n; usize::from(n) * 300]);
                            assert_eq!(store.put(&key, &value), Ok(None));
                            assert_eq!(store.get(&key), Ok(Some(value.into())));
                        }
                    });
                }
            });
        });
        let checks = checks.join();
        assert_eq!(server.close().wait_for(TIMEOUT), Ok(()));
        assert!(checks.is_ok());
    });
}
