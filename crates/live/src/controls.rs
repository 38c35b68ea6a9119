//! Congestion controls for the kernel, from outside of this crate.

use tidegate_core::{Rate, Span};
use tidegate_runs::Error;
use tidegate_scenario::Plan;

/// Properties of a network that a congestion control in the kernel needs and cannot measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelNetwork {
    /// The largest base RTT.
    pub base_rtt: Span,
    /// Rate of the hosts' network cards.
    pub rate: Rate,
    /// Switches on the longest path.
    pub hops: u32,
}

/// Loads congestion controls into the kernel for the length of a run.
pub trait ControlLoader: Sync {
    /// Names of its controls.
    fn names(&self) -> Vec<&'static str>;

    /// Whether it has a control of this name.
    fn has(&self, control: &str) -> bool {
        self.names().contains(&control)
    }

    /// Checks that the control can be loaded now.
    ///
    /// # Errors
    /// If the machine lacks something, or the control is loaded already.
    fn check(&self, control: &str) -> Result<(), Error>;

    /// Loads the control with the parameters of a plan's first protocol.
    ///
    /// # Errors
    /// If that protocol has other parameters, or the kernel refuses.
    fn load(&self, control: &str, plan: &Plan, network: &KernelNetwork) -> Result<(), Error>;

    /// Checks that the control still has the parameters with which it was loaded.
    ///
    /// # Errors
    /// If another command has replaced them.
    fn check_kept(&self, control: &str, plan: &Plan, network: &KernelNetwork) -> Result<(), Error>;

    /// Acknowledgements of the loaded control with telemetry of switches, and without. `None` if
    /// its law reads no telemetry.
    fn telemetry(&self, control: &str) -> Option<[u64; 2]>;

    /// Unloads the control. Connections that use it continue under the kernel's default.
    fn unload(&self, control: &str);
}
