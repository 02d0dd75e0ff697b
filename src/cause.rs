//! Why something is done: the traced request that it is done for.

use std::sync::Arc;

/// A request that is traced, by the names that it has in its trace. It goes with the calls that the request causes, so that
/// whoever traces them knows where they belong; whoever passes it on does not look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub trace_id: u128,
    pub span_id: u64,
    /// What the `tracestate` of the one who asked says.
    pub state: Option<Arc<str>>,
}
