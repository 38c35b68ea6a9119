//! The handle that keeps a host running.

use std::sync::Arc;

use super::shared::{Command, Shared};
use super::thread::EventLoop;

/// Keeps the host running.
#[derive(Clone)]
pub(super) struct Handle(Arc<Lease>);

struct Lease(Arc<EventLoop>);

impl Handle {
    pub(super) fn new(event_loop: Arc<EventLoop>) -> Handle {
        Handle(Arc::new(Lease(event_loop)))
    }

    pub(super) fn event_loop(&self) -> &Arc<EventLoop> {
        &self.0.0
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.event_loop().shared
    }

    /// Gives the host a command.
    pub(super) fn submit(&self, command: Command) {
        self.event_loop().submit(command);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.submit(Command::Close);
    }
}
