use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::measure::Snapshot;

/// Begins families of metrics.
pub(super) struct Families<'e, 'w>(pub(super) &'e mut DescriptorEncoder<'w>);

/// A metric with a value for each set of labels that it is given.
pub(super) struct Family<'f>(MetricEncoder<'f>, MetricType);

pub(super) type Labels<'l> = [(&'l str, &'l str)];

impl Families<'_, '_> {
    /// A number that only goes up. Its name ends in `_total` where it is shown.
    pub(super) fn counter<'s>(&'s mut self, name: &'s str, help: &str) -> Result<Family<'s>, fmt::Error> {
        self.begin(name, help, MetricType::Counter)
    }

    pub(super) fn gauge<'s>(&'s mut self, name: &'s str, help: &str) -> Result<Family<'s>, fmt::Error> {
        self.begin(name, help, MetricType::Gauge)
    }

    pub(super) fn histogram<'s>(&'s mut self, name: &'s str, help: &str) -> Result<Family<'s>, fmt::Error> {
        self.begin(name, help, MetricType::Histogram)
    }

    fn begin<'s>(&'s mut self, name: &'s str, help: &str, kind: MetricType) -> Result<Family<'s>, fmt::Error> {
        Ok(Family(self.0.encode_descriptor(name, help, None, kind)?, kind))
    }
}

/// What a metric shows.
pub(super) enum Value<'v> {
    Number(u64),
    Fraction(f64),
    Times(&'v Snapshot),
}

impl Family<'_> {
    /// The value for these labels.
    pub(super) fn of<'v>(&mut self, labels: &Labels<'_>, value: impl Into<Value<'v>>) -> fmt::Result {
        value.into().encode(self.1, self.0.encode_family(&labels)?)
    }

    /// The value of a metric without labels.
    pub(super) fn only<'v>(self, value: impl Into<Value<'v>>) -> fmt::Result {
        value.into().encode(self.1, self.0)
    }
}

impl Value<'_> {
    fn encode(&self, kind: MetricType, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match (self, kind) {
            (Self::Number(number), MetricType::Counter) => ConstCounter::new(*number).encode(encoder),
            (Self::Number(number), _) => ConstGauge::new(i64::try_from(*number).unwrap_or(i64::MAX)).encode(encoder),
            (Self::Fraction(number), MetricType::Counter) => ConstCounter::new(*number).encode(encoder),
            (Self::Fraction(number), _) => ConstGauge::new(*number).encode(encoder),
            (Self::Times(times), _) => {
                encoder.encode_histogram::<NoLabelSet>(times.sum, times.count, &times.buckets, None)
            }
        }
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Fraction(number)
    }
}

impl<'v> From<&'v Snapshot> for Value<'v> {
    fn from(times: &'v Snapshot) -> Self {
        Self::Times(times)
    }
}
