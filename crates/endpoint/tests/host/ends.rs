//! How hosts, sessions and what waits for them end.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::Span;
use tidegate_endpoint::driver::Driver;
use tidegate_endpoint::host::{Error, Host, Message};
use tidegate_endpoint::node::{Gone, Node, entropy};
use tidegate_endpoint::socket::{Socket, SocketOptions};

use super::{Closes, PATIENCE, anywhere, config, echo, host, pair, plain, request, soon};

#[test]
fn all_that_waits_for_a_peer_fails_when_the_peer_dies() {
    let mut config = config();
    (config.limits.message_bytes, config.limits.unread_bytes) = (20_000, 20_000);
    config.limits.silence = Span::s(1);
    let node = Node::new(config.clone(), entropy().unwrap()).unwrap();
    let socket = Socket::bind(anywhere(), SocketOptions::default()).unwrap();
    let mut dies = Driver::new(node, socket);
    let address = dies.address().unwrap();
    let is_dead = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let most = dies.now() + Span::s(120);
            while !is_dead.load(Ordering::Relaxed) && dies.now() < most {
                let until = dies.now() + Span::ms(10);
                dies.poll(until).unwrap();
                while dies.node.event().is_some() {}
            }
            drop(dies);
        });
        let client = host(config);
        let peer = soon(client.connect(address)).unwrap();
        let waits = peer.request("for ever");
        // More than it ever has room for.
        let sent: Vec<_> = (0..5).map(|_| peer.send(vec![0; 15_000])).collect();
        let (room, closed) = (peer.room(1), peer.closed());
        assert_eq!(soon(peer.room(70_000)), Ok(()), "some of it arrives");
        is_dead.store(true, Ordering::Relaxed);

        let gone = Error::Gone(Gone::Silent);
        assert_eq!(soon(waits), Err(gone));
        assert_eq!(soon(room), Err(gone));
        assert_eq!(soon(closed), Ok(Gone::Silent));
        let failed = sent.into_iter().map(soon).filter(|outcome| *outcome == Err(gone));
        assert!(failed.count() >= 4);
        // So does what comes after it, at once; and the host goes on.
        assert_eq!(soon(peer.send("late")), Err(gone));
        assert_eq!(soon(peer.close()), Ok(Gone::Silent));
        assert_eq!(soon(client.close()), Ok(()));
    });
}

#[test]
fn a_session_that_is_closed_delivers_what_was_sent_before() {
    let (server, _client, peer) = pair(config());
    let sent: Vec<_> = (0..20).map(|n| peer.send(vec![n; 100_000])).collect();
    let waits = peer.request("nobody answers");
    let closed = peer.close();
    let late = peer.send("late");
    sent.into_iter().for_each(|sent| assert_eq!(soon(sent), Ok(())));
    assert_eq!(soon(closed), Ok(Gone::Closed));
    assert_eq!(soon(late), Err(Error::Gone(Gone::Closed)));
    assert_eq!(soon(waits), Err(Error::Gone(Gone::Closed)));
    // What has arrived can still be taken, and cannot be answered.
    let mut bytes = 0;
    for _ in 0..21 {
        match soon(server.receive()).unwrap().1 {
            Message::Plain(body) => bytes += body.len(),
            Message::Request(request) => {
                let replied = soon(request.reply("late"));
                assert_eq!(replied, Err(Error::Gone(Gone::ClosedByPeer)));
            }
        }
    }
    assert_eq!(bytes, 2_000_000);
}

#[test]
fn a_host_that_is_closed_delivers_what_was_sent_and_fails_what_comes() {
    let (server, client, peer) = pair(config());
    let waits = client.receive();
    let sent: Vec<_> = (0..20).map(|n| peer.send(vec![n; 100_000])).collect();
    let (address, closed) = (client.address(), client.close());
    sent.into_iter().for_each(|sent| assert_eq!(soon(sent), Ok(())));
    assert_eq!(soon(closed), Ok(()));
    assert_eq!(soon(waits).unwrap_err(), Error::Closed);
    assert_eq!(soon(client.connect(server.address())).unwrap_err(), Error::Closed);
    assert_eq!(soon(peer.request("late")), Err(Error::Closed));
    assert_eq!(soon(peer.closed()), Ok(Gone::Closed));
    assert_eq!(soon(client.close()), Ok(()));
    // Its address is free, though there are still handles.
    let again = Host::bind(address, config()).unwrap();
    let (from, body) = plain(&server);
    assert_eq!((from.address(), body.len()), (address, 100_000));
    assert_eq!(soon(from.closed()), Ok(Gone::ClosedByPeer));
    drop(again);
}

#[test]
fn a_host_whose_handles_are_dropped_closes_by_itself() {
    let (server, client, peer) = pair(config());
    let address = client.address();
    (0..20).for_each(|n| drop(peer.send(vec![n; 100_000])));
    drop((client, peer));
    for _ in 0..20 {
        assert_eq!(plain(&server).1.len(), 100_000);
    }
    let mut tries = (0..600).map(|_| Host::bind(address, config()));
    let free = tries.find(|host| {
        thread::sleep(Duration::from_millis(100 * u64::from(host.is_err())));
        host.is_ok()
    });
    assert!(free.is_some(), "the address is never free");
}

#[test]
fn what_had_arrived_can_be_taken_from_a_host_that_is_closed() {
    let (server, _client, peer) = pair(config());
    for n in 0..3 {
        assert_eq!(soon(peer.send(vec![n; 10])), Ok(()));
    }
    let asked = peer.request("too late");
    assert_eq!(soon(peer.room(1)), Ok(()), "the request is there, too");
    assert_eq!(soon(server.close()), Ok(()));
    assert_eq!(soon(asked), Err(Error::Gone(Gone::ClosedByPeer)));
    for _ in 0..3 {
        plain(&server);
    }
    assert_eq!(soon(request(&server).reply("later still")), Err(Error::Closed));
    assert_eq!(soon(server.receive()).unwrap_err(), Error::Closed);
}

/// Threads that ask again and again, while first one side is closed and then the other.
#[test]
fn nothing_hangs_where_a_host_is_closed_amid_requests() {
    for closes_client in [true, false] {
        let (server, client, peer) = pair(config());
        let begun = Barrier::new(9);
        thread::scope(|scope| {
            let _closes = [Closes(&server), Closes(&client)];
            scope.spawn(|| echo(&server));
            let ask = |thread: u8| {
                let mut answered = 0;
                loop {
                    match soon(peer.request(vec![thread; 1_000])) {
                        Ok(reply) => assert_eq!(reply, vec![thread; 1_000]),
                        Err(why) => return why,
                    }
                    answered += 1;
                    if answered == 1 {
                        begun.wait();
                    }
                }
            };
            let asking: Vec<_> = (0..8).map(|thread| scope.spawn(move || ask(thread))).collect();
            begun.wait();
            let [first, second] =
                if closes_client { [&client, &server] } else { [&server, &client] };
            assert_eq!(soon(first.close()), Ok(()));
            for asking in asking {
                let why = asking.join().unwrap();
                assert!(matches!(
                    why,
                    Error::Closed | Error::Gone(Gone::Closed | Gone::ClosedByPeer)
                ));
            }
            assert_eq!(soon(second.close()), Ok(()));
        });
    }
}

#[test]
fn a_host_closes_though_a_peer_has_no_room_for_what_was_sent() {
    let mut config = config();
    (config.limits.message_bytes, config.limits.unread_bytes) = (20_000, 20_000);
    config.limits.silence = Span::s(1);
    let (server, client, peer) = pair(config.clone());
    let sent: Vec<_> = (0..5).map(|_| peer.send(vec![0; 15_000])).collect();
    let mut closed = client.close();
    // Who begins a session meanwhile is sent away.
    let late = soon(host(config).connect(client.address())).unwrap();
    assert_eq!(soon(late.closed()), Ok(Gone::ClosedByPeer));
    assert_eq!(closed.wait_for(Duration::from_millis(300)), Err(Error::TimedOut));
    assert_eq!(closed.wait_for(PATIENCE), Ok(()));
    let outcomes: Vec<_> = sent.into_iter().map(soon).collect();
    assert_eq!(outcomes.iter().filter(|&&outcome| outcome == Ok(())).count(), 1, "{outcomes:?}");
    assert!(outcomes[1..].iter().all(|&outcome| outcome == Err(Error::Closed)), "{outcomes:?}");
    assert_eq!(soon(peer.closed()), Err(Error::Closed));
    assert_eq!(plain(&server).1.len(), 15_000);
}

/// Longer than a peer may be silent, while some of it is delivered every now and then.
#[test]
fn a_host_that_closes_waits_as_long_as_messages_are_delivered() {
    let mut config = config();
    (config.limits.message_bytes, config.limits.unread_bytes) = (20_000, 20_000);
    config.limits.silence = Span::s(2);
    let (server, client, peer) = pair(config);
    let sent: Vec<_> = (0..5).map(|_| peer.send(vec![0; 15_000])).collect();
    let closed = client.close();
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(500));
        plain(&server);
    }
    assert_eq!(soon(closed), Ok(()));
    sent.into_iter().for_each(|sent| assert_eq!(soon(sent), Ok(())));
}

/// One session after the other, each of which leaves something that nobody takes.
#[test]
fn what_sessions_leave_behind_is_bounded() {
    let mut config = config();
    (config.limits.message_bytes, config.limits.unread_bytes) = (20_000, 50_000);
    let (server, _client, stays) = pair(config.clone());
    assert_eq!(soon(stays.send(vec![99; 15_000])), Ok(()));
    for n in 0..7 {
        let peer = soon(host(config.clone()).connect(server.address())).unwrap();
        assert_eq!(soon(peer.send(vec![n; 15_000])), Ok(()));
        assert_eq!(soon(peer.close()), Ok(Gone::Closed));
    }
    // When this is there, the server has heard of the last end.
    assert_eq!(soon(stays.send(vec![100; 10])), Ok(()));
    // Of who is still there, and the last three.
    let which: Vec<u8> = (0..5).map(|_| plain(&server).1[0]).collect();
    assert_eq!(which, [99, 4, 5, 6, 100]);
    let nothing = server.receive().wait_for(Duration::from_millis(300));
    assert_eq!(nothing.unwrap_err(), Error::TimedOut);
}
