use clap::{Args, value_parser};

use super::store::hundredths;

/// What metrics tell apart.
#[derive(Args, Clone, Debug)]
pub struct MetricSettings {
    /// Count hits as near the limit that pass while at least this part of it is used, 0.01 to 1
    #[arg(
        long,
        env = "COMPORTA_NEAR_LIMIT_RATIO",
        value_name = "RATIO",
        default_value = "0.8",
        value_parser = hundredths
    )]
    pub near_limit_ratio: u8,

    /// Tell at most so many values apart for each rule whose metrics name values, 0 to 100000
    #[arg(
        long,
        env = "COMPORTA_METRIC_SERIES_PER_RULE",
        value_name = "COUNT",
        default_value_t = 100,
        value_parser = value_parser!(u32).range(0..=100_000)
    )]
    pub metric_series_per_rule: u32,
}
