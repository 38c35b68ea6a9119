//! x
/// schema
pub fn schema() -> serde_json::Value { serde_json::json!({}) }
