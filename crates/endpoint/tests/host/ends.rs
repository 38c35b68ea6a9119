//! The end of hosts, sessions and pending outcomes.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::Span;
use tidegate_endpoint::driver::Driver;
use tidegate_endpoint::host::{Error, Host, Message};
use tidegate_endpoint::node::{CloseReason, Node, entropy};
use tidegate_endpoint::socket::{Socket, SocketOptions};

use super::{Closes, TIMEOUT, any_port, config, echo, host, pair, plain, request, wait};

#[test]
fn outcomes_fail_when_peer_dies() {
    let mut config = config();
    (config.limits.message_bytes, config.limits.unread_bytes) = (20_000, 20_000);
    config.limits.silence = Span::s(1);
    let node = Node::new(config.clone(), entropy().unwrap()).unwrap();
    let socket = Socket::bind(any_port(), SocketOptions::default()).unwrap();
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
        let peer = wait(client.connect(address)).unwrap();
        let waits = peer.request("for ever");
        // More than the peer has room for.
        let sent: Vec<_> = (0..5).map(|_| peer.send(vec![0; 15_000])).collect();
        let (room, closed) = (peer.room(1), peer.closed());
        assert_eq!(wait(peer.room(70_000)), Ok(()), "some of it arrives");
        is_dead.store(true, Ordering::Relaxed);

        let silent = Error::SessionClosed(CloseReason::Silent);
        assert_eq!(wait(waits), Err(silent));
        assert_eq!(wait(room), Err(silent));
        assert_eq!(wait(closed), Ok(CloseReason::Silent));
        let failed = sent.into_iter().map(wait).filter(|outcome| *outcome == Err(silent));
        assert!(failed.count() >= 4);
        // Later operations fail immediately, and the host keeps running.
        assert_eq!(wait(peer.send("late")), Err(silent));
        assert_eq!(wait(peer.close()), Ok(CloseReason::Silent));
        assert_eq!(wait(client.close()), Ok(()));
    });
}

#[test]
fn closing_session_delivers_sent_messages() {
    let (server, _client, peer) = pair(config());
    let sent: Vec<_> = (0..20).map(|n| peer.send(vec![n; 100_000])).collect();
    let waits = peer.request("nobody answers");
    let closed = peer.close();
    let late = peer.send("late");
    sent.into_iter().for_each(|sent| assert_eq!(wait(sent), Ok(())));
    assert_eq!(wait(closed), Ok(CloseReason::Closed));
    assert_eq!(wait(late), Err(Error::SessionClosed(CloseReason::Closed)));
    assert_eq!(wait(waits), Err(Error::SessionClosed(CloseReason::Closed)));
    // Arrived requests can still be received, but not answered.
    let mut bytes = 0;
    for _ in 0..21 {
        match wait(server.receive()).unwrap().1 {
            Message::Plain(body) => bytes += body.len(),
            Message::Request(request) => {
                let replied = wait(request.reply("late"));
                assert_eq!(replied, Err(Error::SessionClosed(CloseReason::ClosedByPeer)));
            }
        }
    }
    assert_eq!(bytes, 2_000_000);
}

#[test]
fn closing_host_delivers_sent_messages() {
    let (server, client, peer) = pair(config());
    let waits = client.receive();
    let sent: Vec<_> = (0..20).map(|n| peer.send(vec![n; 100_000])).collect();
    let (address, closed) = (client.address(), client.close());
    sent.into_iter().for_each(|sent| assert_eq!(wait(sent), Ok(())));
    assert_eq!(wait(closed), Ok(()));
    assert_eq!(wait(waits).unwrap_err(), Error::Closed);
    assert_eq!(wait(client.connect(server.address())).unwrap_err(), Error::Closed);
    assert_eq!(wait(peer.request("late")), Err(Error::Closed));
    assert_eq!(wait(peer.closed()), Ok(CloseReason::Closed));
    assert_eq!(wait(client.close()), Ok(()));
    // Its address is free, even if handles exist.
    let again = Host::bind(address, config()).unwrap();
    let (from, body) = plain(&server);
    assert_eq!((from.address(), body.len()), (address, 100_000));
    assert_eq!(wait(from.closed()), Ok(CloseReason::ClosedByPeer));
    drop(again);
}

#[test]
fn host_closes_without_handles() {
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
    assert!(free.is_some(), "the address was not released");
}

#[test]
fn receive_from_closed_host() {
    let (server, _client, peer) = pair(config());
    for n in 0..3 {
        assert_eq!(wait(peer.send(vec![n; 10])), Ok(()));
    }
    let reply = peer.request("too late");
    assert_eq!(wait(peer.room(1)), Ok(()), "the request has arrived, too");
    assert_eq!(wait(server.close()), Ok(()));
    assert_eq!(wait(reply), Err(Error::SessionClosed(CloseReason::ClosedByPeer)));
    for _ in 0..3 {
        plain(&server);
    }
    assert_eq!(wait(request(&server).reply("later still")), Err(Error::Closed));
    assert_eq!(wait(server.receive()).unwrap_err(), Error::Closed);
}

/// Threads send requests repeatedly, while first one host is closed and then the other.
#[test]
fn close_during_requests() {
    for closes_client in [true, false] {
        let (server, client, peer) = pair(config());
        let begun = Barrier::new(9);
        thread::scope(|scope| {
            let _closes = [Closes(&server), Closes(&client)];
            scope.spawn(|| echo(&server));
            let ask = |thread: u8| {
                let mut answered = 0;
                loop {
                    match wait(peer.request(vec![thread; 1_000])) {
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
            assert_eq!(wait(first.close()), Ok(()));
            for asking in asking {
                let why = asking.join().unwrap();
                assert!(matches!(
                    why,
                    Error::Closed
                        | Error::SessionClosed(CloseReason::Closed | CloseReason::ClosedByPeer)
                ));
            }
            assert_eq!(wait(second.close()), Ok(()));
        });
    }
}

#[test]
fn host_closes_despite_blocked_messages() {
    let mut config = config();
    (config.limits.message_bytes, config.limits.unread_bytes) = (20_000, 20_000);
    config.limits.silence = Span::s(1);
    let (server, client, peer) = pair(config.clone());
    let sent: Vec<_> = (0..5).map(|_| peer.send(vec![0; 15_000])).collect();
    let mut closed = client.close();
    // New sessions are closed meanwhile.
    let late = wait(host(config).connect(client.address())).unwrap();
    assert_eq!(wait(late.closed()), Ok(CloseReason::ClosedByPeer));
    assert_eq!(closed.wait_for(Duration::from_millis(300)), Err(Error::TimedOut));
    assert_eq!(closed.wait_for(TIMEOUT), Ok(()));
    let outcomes: Vec<_> = sent.into_iter().map(wait).collect();
    assert_eq!(outcomes.iter().filter(|&&outcome| outcome == Ok(())).count(), 1, "{outcomes:?}");
    assert!(outcomes[1..].iter().all(|&outcome| outcome == Err(Error::Closed)), "{outcomes:?}");
    assert_eq!(wait(peer.closed()), Err(Error::Closed));
    assert_eq!(plain(&server).1.len(), 15_000);
}

/// Closing takes longer than the silence timeout, while messages are delivered periodically.
#[test]
fn closing_host_waits_for_deliveries() {
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
    assert_eq!(wait(closed), Ok(()));
    sent.into_iter().for_each(|sent| assert_eq!(wait(sent), Ok(())));
}

/// Consecutive sessions, each of which leaves an unread message.
#[test]
fn unread_messages_of_ended_sessions_are_bounded() {
    let mut config = config();
    (config.limits.message_bytes, config.limits.unread_bytes) = (20_000, 50_000);
    let (server, _client, stays) = pair(config.clone());
    assert_eq!(wait(stays.send(vec![99; 15_000])), Ok(()));
    for n in 0..7 {
        let peer = wait(host(config.clone()).connect(server.address())).unwrap();
        assert_eq!(wait(peer.send(vec![n; 15_000])), Ok(()));
        assert_eq!(wait(peer.close()), Ok(CloseReason::Closed));
    }
    // When this message arrives, the server has processed the last end.
    assert_eq!(wait(stays.send(vec![100; 10])), Ok(()));
    // The message of the open session, and the last three of ended ones.
    let which: Vec<u8> = (0..5).map(|_| plain(&server).1[0]).collect();
    assert_eq!(which, [99, 4, 5, 6, 100]);
    let nothing = server.receive().wait_for(Duration::from_millis(300));
    assert_eq!(nothing.unwrap_err(), Error::TimedOut);
}
