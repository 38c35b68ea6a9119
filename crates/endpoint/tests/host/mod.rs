//! Hosts on real sockets, as applications use them.
#![cfg(target_os = "linux")]

mod ends;

use std::collections::BTreeSet;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tidegate_algos::Protocol;
use tidegate_core::params::Value;
use tidegate_core::{Rate, Span};
use tidegate_endpoint::driver::Driver;
use tidegate_endpoint::host::{BindError, Completion, Error, Host, Message, Peer, Request};
use tidegate_endpoint::node::{CloseReason, Config, ConfigError, Node, Setting, entropy};
use tidegate_endpoint::session::Key;
use tidegate_endpoint::socket::{Socket, SocketOptions};

/// Timeout for all operations, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Enough time for sent messages to arrive.
const DELIVERY_TIME: Duration = Duration::from_millis(300);

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn config() -> Config {
    Config::real(Protocol::DEFAULT.stack(), Key::new(b"of these tests"), Rate::gbps(10))
}

fn host(config: Config) -> Host {
    Host::bind(any_port(), config).unwrap()
}

fn pair(config: Config) -> (Host, Host, Peer) {
    let (server, client) = (host(config.clone()), host(config));
    let peer = wait(client.connect(server.address())).unwrap();
    (server, client, peer)
}

/// Waits for an outcome with a timeout.
fn wait<T>(mut completion: Completion<T>) -> Result<T, Error> {
    let outcome = completion.wait_for(TIMEOUT);
    assert!(!matches!(outcome, Err(Error::TimedOut)), "nothing came");
    outcome
}

fn plain(host: &Host) -> (Peer, Bytes) {
    match wait(host.receive()).unwrap() {
        (peer, Message::Plain(body)) => (peer, body),
        (peer, Message::Request(request)) => panic!("{request:?} of {peer:?}"),
    }
}

fn request(host: &Host) -> Request {
    match wait(host.receive()).unwrap() {
        (_, Message::Request(request)) => request,
        (peer, Message::Plain(body)) => panic!("{} B of {peer:?}", body.len()),
    }
}

/// Echoes all requests until the host is closed.
fn echo(server: &Host) {
    while let Ok((_, message)) = server.receive().wait() {
        if let Message::Request(request) = message {
            let body = request.body().clone();
            request.reply(body);
        }
    }
}

/// Closes a host at the end of a test, also after a failure, so that no thread waits for ever.
struct Closes<'a>(&'a Host);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[test]
fn path_until_session_ends() {
    // The first target is shorter than any RTT, the second longer than any RTT on loopback.
    for (target, warns) in [(Span::ns(100), true), (Span::ms(100), false)] {
        let mut stack = Protocol::named("swift").unwrap().stack();
        let others = [("per_hop", Span::ZERO), ("fs_range", Span::us(200))];
        for (name, value) in [("base_target", target)].into_iter().chain(others) {
            stack.set(name, Value::Span(value)).unwrap();
        }
        let config = Config { stack, ..config() };
        let (_server, _client, peer) = pair(config);
        let path = wait(peer.path()).unwrap();
        let rtt = path.base_rtt.expect("the handshake is a round trip");
        assert!(Span::us(1) < rtt && rtt < Span::s(10), "{rtt}");
        let warning = path.domain_warning;
        assert_eq!(warning.is_some(), warns, "{target}: {warning:?}");
        assert!(warning.is_none_or(|warning| warning.contains("base RTT")));
        assert_eq!(wait(peer.close()), Ok(CloseReason::Closed));
        assert_eq!(wait(peer.path()), Err(Error::SessionClosed(CloseReason::Closed)));
    }
}

#[test]
fn messages_requests_and_replies() {
    let (server, client, peer) = pair(config());
    assert_eq!(peer.address(), server.address());
    let long = Bytes::from((0..3_000_000u32).map(|i| i as u8).collect::<Vec<_>>());
    let sent = peer.send(long.clone());
    let (from, body) = plain(&server);
    assert_eq!((from.address(), body), (client.address(), long.clone()));
    assert_eq!(wait(sent), Ok(()));

    // Both directions of the session use the same peer handle.
    let empty = from.send(Bytes::new());
    assert_eq!(plain(&client), (peer.clone(), Bytes::new()));
    assert_eq!(wait(empty), Ok(()));
    assert_eq!(wait(client.connect(server.address())).unwrap(), peer);

    let reply = peer.request("how long?");
    let taken = request(&server);
    assert_eq!(taken.body(), "how long?");
    let replied = taken.reply(long.clone());
    assert_eq!(wait(reply), Ok(long));
    assert_eq!(wait(replied), Ok(()));

    // A dropped outcome is not waited for.
    let reply = peer.request("anybody?");
    drop(request(&server));
    assert_eq!(wait(reply), Err(Error::Unanswered));
}

#[test]
fn outcomes_awaited_in_tasks() {
    let outcome: Result<(), Error> = pollster::block_on(async {
        let (server, client) = (host(config()), host(config()));
        let peer = client.connect(server.address()).await?;
        let (reply, sent) = (peer.request("first"), peer.send("second"));
        for _ in 0..2 {
            match server.receive().await? {
                (_, Message::Request(request)) => request.reply("reply").await?,
                (_, Message::Plain(body)) => assert_eq!(body, "second"),
            }
        }
        sent.await?;
        assert_eq!(reply.await?, "reply");
        assert_eq!(peer.close().await?, CloseReason::Closed);
        server.close().await
    });
    assert_eq!(outcome, Ok(()));
}

#[test]
fn wait_again_after_timeout() {
    let (server, _client, peer) = pair(config());
    let mut reply = peer.request("late");
    let taken = request(&server);
    for _ in 0..2 {
        assert_eq!(reply.wait_for(Duration::from_millis(20)), Err(Error::TimedOut));
    }
    let mut nothing = server.receive();
    assert_eq!(nothing.wait_for(Duration::ZERO).unwrap_err(), Error::TimedOut);
    taken.reply("reply");
    assert_eq!(reply.wait_for(TIMEOUT).unwrap(), "reply");
    assert_eq!(reply.wait(), Err(Error::Given));
    // A wait that timed out takes no message from others.
    peer.send("message");
    assert_eq!(plain(&server).1, "message");
    drop(nothing);
}

#[test]
fn threads_share_a_host() {
    const HOSTS: usize = 3;
    const THREADS: usize = 4;
    const EACH: usize = 50;
    let server = host(config());
    let clients: Vec<Host> = (0..HOSTS).map(|_| host(config())).collect();
    thread::scope(|scope| {
        let _closes = Closes(&server);
        // Several threads receive requests, too.
        for _ in 0..2 {
            scope.spawn(|| echo(&server));
        }
        let ask = |i: usize, thread: usize| {
            let peer = wait(clients[i].connect(server.address())).unwrap();
            let name = |n: usize| format!("{i} {thread} {n} ").repeat(1 + n * 10);
            let replies: Vec<_> = (0..EACH).map(|n| peer.request(name(n))).collect();
            for (n, reply) in replies.into_iter().enumerate() {
                assert_eq!(wait(reply).unwrap(), name(n));
            }
        };
        let all = (0..HOSTS).flat_map(|i| (0..THREADS).map(move |thread| (i, thread)));
        let asking: Vec<_> = all.map(|(i, t)| scope.spawn(move || ask(i, t))).collect();
        asking.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Counts wake-ups of a task.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Each message wakes one of the waiters, even if messages arrive quickly, and is received once.
#[test]
fn messages_are_received_once() {
    let (server, _client, peer) = pair(config());
    let mut tasks: Vec<_> = (0..8).map(|_| (server.receive(), Arc::<Woken>::default())).collect();
    let mut poll = |i: usize| {
        let (receive, woken): &mut (_, Arc<Woken>) = &mut tasks[i];
        let waker = Waker::from(woken.clone());
        (Pin::new(receive).poll(&mut Context::from_waker(&waker)), woken.clone())
    };
    let woken: Vec<_> = (0..8).map(|i| poll(i).1).collect();
    let sent: Vec<_> = (0..7u8).map(|n| peer.send(vec![n; 10])).collect();
    sent.into_iter().for_each(|sent| assert_eq!(wait(sent), Ok(())));
    let count = || woken.iter().filter(|woken| woken.0.load(Ordering::SeqCst)).count();
    let patience = (0..600).find(|_| {
        thread::sleep(Duration::from_millis(10));
        count() == 7
    });
    assert!(patience.is_some(), "{} of 7 are woken", count());
    let mut got = BTreeSet::new();
    for i in 0..8 {
        match poll(i).0 {
            Poll::Ready(Ok((_, Message::Plain(body)))) => assert!(got.insert(body[0])),
            Poll::Ready(other) => panic!("{other:?}"),
            Poll::Pending => {}
        }
    }
    assert_eq!(got, (0..7).collect());
}

#[test]
fn unread_messages_block_their_sender() {
    let mut config = config();
    (config.limits.message_bytes, config.limits.unread_bytes) = (20_000, 100_000);
    let (server, _first, to_server) = pair(config.clone());
    let (other, second) = (host(config.clone()), host(config));
    let mut sent: Vec<_> = (0..50).map(|_| to_server.send(vec![1; 10_000])).collect();
    // Nine messages with heads fill the room.
    for sent in sent.drain(..9) {
        assert_eq!(wait(sent), Ok(()));
    }
    assert_eq!(sent[0].wait_for(DELIVERY_TIME), Err(Error::TimedOut));
    assert_eq!(to_server.room(1_000).wait_for(Duration::ZERO), Err(Error::TimedOut));
    assert_eq!(wait(to_server.room(1_000_000)), Ok(()));

    // Messages of another host, and of the other direction, have their own room.
    let beside = wait(second.connect(server.address())).unwrap();
    assert_eq!(wait(beside.send(vec![2; 10_000])), Ok(()));
    let elsewhere = wait(second.connect(other.address())).unwrap();
    assert_eq!(wait(elsewhere.send(vec![3; 10_000])), Ok(()));

    // Receiving messages frees room.
    for _ in 0..51 {
        plain(&server);
    }
    sent.into_iter().for_each(|sent| assert_eq!(wait(sent), Ok(())));
    assert_eq!(wait(to_server.room(1)), Ok(()));
}

/// Replies that exceed the room, none of which is read before the last arrives.
#[test]
fn replies_need_no_room() {
    let mut config = config();
    (config.limits.message_bytes, config.limits.unread_bytes) = (20_000, 20_000);
    let (server, _client, peer) = pair(config);
    thread::scope(|scope| {
        let _closes = Closes(&server);
        scope.spawn(|| echo(&server));
        let replies: Vec<_> = (0..20).map(|n| peer.request(vec![n; 10_000])).collect();
        for (n, reply) in replies.into_iter().enumerate().rev() {
            assert_eq!(wait(reply).unwrap(), vec![n as u8; 10_000]);
        }
    });
}

#[test]
fn errors_of_mismatched_peers() {
    let mut small = config();
    small.limits.peers = 1;
    small.limits.silence = Span::ms(500);
    (small.limits.message_bytes, small.limits.unread_bytes) = (20_000, 20_000);
    let server = host(small.clone());
    let client = host(small.clone());

    let mut other = small.clone();
    other.datagram = 1_000;
    let why = wait(host(other).connect(server.address())).unwrap_err();
    assert!(matches!(why, Error::SessionClosed(CloseReason::OtherPayload { .. })), "{why}");
    let other_key = Config { key: Key::new(b"another"), ..small };
    let why = wait(host(other_key).connect(server.address())).unwrap_err();
    assert_eq!(why, Error::SessionClosed(CloseReason::Silent));
    assert_eq!(
        why.to_string(),
        "the peer does not answer: check that it runs and has the same key"
    );

    let peer = wait(client.connect(server.address())).unwrap();
    let most = 20_000 - 4;
    assert_eq!(wait(peer.send(vec![0; 19_997])), Err(Error::TooLong { most }));
    let most = 20_000 - 12;
    let why = wait(peer.request(vec![0; 19_989])).unwrap_err();
    assert_eq!(why, Error::TooLong { most });
    assert_eq!(why.to_string(), "the message is too long: at most 19988 bytes are allowed");
    // A reply that is too long fails, and its requester does not wait for it.
    let reply = peer.request(vec![0; 19_988]);
    let replied = request(&server).reply(vec![0; 19_989]);
    assert_eq!(wait(replied), Err(Error::TooLong { most }));
    assert_eq!(wait(reply), Err(Error::Unanswered));
    assert_eq!(wait(client.connect(any_port())).unwrap_err(), Error::Full);
}

/// An unreachable address does not affect other sessions.
#[test]
fn unreachable_address() {
    let mut config = config();
    config.limits.silence = Span::ms(500);
    let (server, client, peer) = pair(config);
    for nowhere in ["127.0.0.1:0", "255.255.255.255:9", "[::1]:9", "0.0.0.0:0"] {
        let outcome = wait(client.connect(nowhere.parse().unwrap()));
        assert_eq!(outcome.unwrap_err(), Error::SessionClosed(CloseReason::Silent), "{nowhere}");
    }
    peer.send("still there");
    assert_eq!(plain(&server).1, "still there");
}

#[test]
fn bind_errors() {
    let taken = host(config());
    match Host::bind(taken.address(), config()) {
        Err(BindError::System(why)) => assert_eq!(why.kind(), std::io::ErrorKind::AddrInUse),
        other => panic!("{other:?}"),
    }
    match Host::bind(any_port(), Config { hops: 0, ..config() }) {
        Err(BindError::Config(ConfigError::Range { what, .. })) => assert_eq!(what, Setting::Hops),
        other => panic!("{other:?}"),
    }
}

#[test]
fn hosts_refuse_declared_packet_sizes() {
    for (name, bytes) in [("header_bytes", 40), ("control_bytes", 60)] {
        let mut declared = config();
        declared.stack.set(name, Value::Integer(bytes)).unwrap();
        match Host::bind(any_port(), declared) {
            Err(BindError::Config(why)) => {
                let expected = format!("{name} = {bytes}");
                assert!(why.to_string().contains(&expected), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Hosts with equal configurations draw different random numbers, unless a seed is set.
#[test]
fn nodes_draw_their_seeds() {
    let seed = |config| Node::new(config, entropy().unwrap()).unwrap().context().seed;
    assert_ne!(seed(config()), seed(config()));
    assert_eq!(seed(Config { seed: Some(7), ..config() }), 7);
}

/// The driver polls for the configured time after its last work, and no longer.
#[test]
fn busy_poll_duration() {
    for busy_poll in [Duration::ZERO, Duration::from_millis(20)] {
        let options = SocketOptions { busy_poll, ..SocketOptions::default() };
        let node = Node::new(config(), entropy().unwrap()).unwrap();
        let mut driver = Driver::new(node, Socket::bind(any_port(), options).unwrap());
        assert!(driver.work().unwrap(), "there is no work yet");
        let now = driver.now();
        driver.node.connect(now, SocketAddr::from((Ipv4Addr::LOCALHOST, 9))).unwrap();
        assert!(!driver.work().unwrap(), "a Hello was sent");
        let mut polls = 0;
        while !driver.work().unwrap() {
            polls += 1;
        }
        let (took, busy) = (driver.now().since(now), Span::ns(busy_poll.as_nanos() as u64));
        assert!(took >= busy, "{took} of {busy}");
        assert_eq!(polls > 0, busy_poll > Duration::ZERO, "{polls} polls");
    }
}
