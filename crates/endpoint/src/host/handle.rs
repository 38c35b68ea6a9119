//! The handle that keeps a host running.

use std::sync::Arc;

use super::shared::{Order, Shared};
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

    /// Gives the host an order.
    pub(super) fn order(&self, order: Order) {
        self.event_loop().order(order);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.order(Order::Close);
    }
}
