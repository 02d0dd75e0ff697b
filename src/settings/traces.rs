//! What is traced, and where that is sent. What our own settings leave open, OpenTelemetry's variables may say.

use std::env;
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use http::{HeaderName, HeaderValue};

use super::switch;
use crate::trace::{OtlpEndpoint, OtlpProtocol, Ratio, Sampling, TracerSettings};

/// How long a collector may take for a batch, if nobody says: what OpenTelemetry recommends.
const USUAL_TIMEOUT: Duration = Duration::from_secs(10);

/// What is traced, and where that is sent.
#[derive(Args, Clone, Debug)]
pub struct TraceSettings {
    /// OpenTelemetry collector that traces are sent to, such as `http://collector:4317`; also
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` [default: none, nothing is traced]
    #[arg(long, env = "COMPORTA_OTLP_ENDPOINT", hide_env_values = true, value_name = "URL")]
    pub otlp_endpoint: Option<OtlpEndpoint>,

    /// What is spoken there; also `OTEL_EXPORTER_OTLP_PROTOCOL` [default: grpc on port 4317, http/protobuf on others]
    #[arg(long, env = "COMPORTA_OTLP_PROTOCOL", value_name = "PROTOCOL", value_enum)]
    pub otlp_protocol: Option<OtlpProtocol>,

    /// The part of the requests, 0 to 1, that are traced though the caller does not trace them; also
    /// `OTEL_TRACES_SAMPLER` [default: 0, only what the caller traces]
    #[arg(long, env = "COMPORTA_TRACE_RATIO", value_name = "RATIO")]
    pub trace_ratio: Option<Ratio>,

    /// Let traces name the values of descriptors, and not only their keys
    #[arg(
        long,
        env = "COMPORTA_TRACE_VALUES",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = switch
    )]
    pub trace_values: bool,
}

impl ValueEnum for OtlpProtocol {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// Looks up a variable of the environment. OpenTelemetry counts an empty one as not set.
type LookUp<'a> = &'a dyn Fn(&str) -> Option<String>;

impl TraceSettings {
    /// What to trace and where to send it, if anything is to be traced.
    ///
    /// # Errors
    ///
    /// When a variable of OpenTelemetry says what cannot be, or two settings do not go together.
    pub fn tracer(&self) -> Result<Option<TracerSettings>, String> {
        self.tracer_in(&|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn tracer_in(&self, environment: LookUp<'_>) -> Result<Option<TracerSettings>, String> {
        let variable =
            |name: &str| environment(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let is = |name: &str, word: &str| variable(name).is_some_and(|text| text.eq_ignore_ascii_case(word));
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        if variable("OTEL_TRACES_EXPORTER").is_some_and(|exporter| exporter != "otlp") {
            return Err("OTEL_TRACES_EXPORTER: give otlp or none".to_owned());
        }
        let Some((endpoint, is_for_traces)) = self.endpoint(&variable)? else {
            let ratio = self.trace_ratio.map(|_| "--trace-ratio");
            let protocol = self.otlp_protocol.map(|_| "--otlp-protocol");
            return match ratio.or(protocol).or(self.trace_values.then_some("--trace-values")) {
                Some(setting) => Err(format!("{setting} is of no use without --otlp-endpoint: give that, too")),
                None => Ok(None),
            };
        };
        let protocol = match self.otlp_protocol {
            Some(protocol) => protocol,
            None => signal(&variable, "PROTOCOL", protocol)?.unwrap_or_else(|| endpoint.usual_protocol()),
        };
        let has_whole_path = protocol == OtlpProtocol::Grpc || is_for_traces;
        signal(&variable, "HEADERS", headers)?;
        Ok(Some(TracerSettings {
            endpoint: if has_whole_path { endpoint } else { endpoint.with_path_of_traces() },
            protocol,
            timeout: signal(&variable, "TIMEOUT", milliseconds)?.unwrap_or(USUAL_TIMEOUT),
            sampling: match self.trace_ratio {
                Some(ratio) => Sampling::with_ratio(ratio),
                None => sampling(&variable)?,
            },
            with_values: self.trace_values,
        }))
    }

    /// Where to send traces, and whether the address is for traces alone.
    fn endpoint(&self, variable: LookUp<'_>) -> Result<Option<(OtlpEndpoint, bool)>, String> {
        if let Some(endpoint) = &self.otlp_endpoint {
            return Ok(Some((endpoint.clone(), false)));
        }
        for (name, is_for_traces) in
            [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", true), ("OTEL_EXPORTER_OTLP_ENDPOINT", false)]
        {
            if let Some(text) = variable(name) {
                let endpoint = text.parse().map_err(|error| format!("{name}: {error}"))?;
                return Ok(Some((endpoint, is_for_traces)));
            }
        }
        Ok(None)
    }
}

/// Reads a setting of the exporter: the variable for traces, or else the one for all that is exported.
fn signal<T>(
    variable: LookUp<'_>,
    setting: &str,
    read: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<Option<T>, String> {
    for name in [format!("OTEL_EXPORTER_OTLP_TRACES_{setting}"), format!("OTEL_EXPORTER_OTLP_{setting}")] {
        if let Some(text) = variable(&name) {
            return read(&text).map(Some).map_err(|advice| format!("{name}: {advice}"));
        }
    }
    Ok(None)
}

fn protocol(text: &str) -> Result<OtlpProtocol, &'static str> {
    let named = OtlpProtocol::ALL.into_iter().find(|protocol| protocol.name() == text);
    named.ok_or("give grpc or http/protobuf")
}

fn milliseconds(text: &str) -> Result<Duration, &'static str> {
    let number = text.parse().ok().filter(|number| (1..=600_000).contains(number));
    number.map(Duration::from_millis).ok_or("give milliseconds from 1 to 600000, such as 10000")
}

/// Whether the exporter can read these headers. What is in them may be secret.
fn headers(text: &str) -> Result<(), &'static str> {
    let is_header = |pair: &str| {
        pair.split_once('=').is_some_and(|(name, value)| {
            name.trim().parse::<HeaderName>().is_ok() && value.trim().parse::<HeaderValue>().is_ok()
        })
    };
    let pairs = text.split_terminator(',');
    if pairs.clone().all(is_header) { Ok(()) } else { Err("give NAME=VALUE, several with commas between them") }
}

/// What `OTEL_TRACES_SAMPLER` says.
fn sampling(variable: LookUp<'_>) -> Result<Sampling, String> {
    const NAME: &str = "OTEL_TRACES_SAMPLER";
    const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
    let all = |ratio| Sampling { sampled: ratio, not_sampled: ratio, root: ratio };
    let by_parent = |ratio| Sampling { sampled: Ratio::ALWAYS, not_sampled: Ratio::NEVER, root: ratio };
    let ratio = || match variable(ARGUMENT) {
        Some(text) => text.parse().map_err(|error| format!("{ARGUMENT}: {error}")),
        None => Ok(Ratio::ALWAYS),
    };
    Ok(match variable(NAME).as_deref() {
        None => Sampling::with_ratio(Ratio::NEVER),
        Some("always_on") => all(Ratio::ALWAYS),
        Some("always_off") => all(Ratio::NEVER),
        Some("traceidratio") => all(ratio()?),
        Some("parentbased_always_on") => by_parent(Ratio::ALWAYS),
        Some("parentbased_always_off") => by_parent(Ratio::NEVER),
        Some("parentbased_traceidratio") => by_parent(ratio()?),
        Some(_) => {
            return Err(format!(
                "{NAME}: give always_on, always_off, traceidratio, or one of them with parentbased_ before it"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: TraceSettings =
        TraceSettings { otlp_endpoint: None, otlp_protocol: None, trace_ratio: None, trace_values: false };
    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");

    fn read(settings: &TraceSettings, environment: &[(&str, &str)]) -> Result<Option<TracerSettings>, String> {
        settings.tracer_in(&|name| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn tracer(environment: &[(&str, &str)]) -> TracerSettings {
        read(&SILENT, environment).unwrap().expect("it is on")
    }

    #[test]
    fn without_an_endpoint_nothing_is_traced() {
        assert_eq!(read(&SILENT, &[("OTEL_TRACES_SAMPLER", "nonsense")]), Ok(None));
        assert_eq!(read(&SILENT, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), Ok(None));
        for off in [("OTEL_SDK_DISABLED", "True"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert_eq!(read(&SILENT, &[ENDPOINT, off]), Ok(None));
        }
        let ratio = TraceSettings { trace_ratio: Some(Ratio::ALWAYS), ..SILENT };
        assert!(read(&ratio, &[]).unwrap_err().contains("--trace-ratio is of no use without --otlp-endpoint"));
    }

    #[test]
    fn a_flag_goes_before_the_variable_for_traces_and_that_before_the_one_for_all() {
        let for_traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4318/in");
        let flag = TraceSettings { otlp_endpoint: Some("http://flag:4318".parse().unwrap()), ..SILENT };
        let endpoint = |found: Result<Option<TracerSettings>, _>| found.unwrap().unwrap().endpoint.to_string();
        assert_eq!(endpoint(read(&flag, &[for_traces, ENDPOINT])), "http://flag:4318/v1/traces");
        assert_eq!(endpoint(read(&SILENT, &[for_traces, ENDPOINT])), "http://traces:4318/in");
        assert_eq!(endpoint(read(&SILENT, &[ENDPOINT])), "http://collector:4317/");
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        assert_eq!(endpoint(read(&SILENT, &[ENDPOINT, http])), "http://collector:4317/v1/traces");
        let grpc = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc");
        assert_eq!(tracer(&[ENDPOINT, http, grpc]).protocol, OtlpProtocol::Grpc);
    }

    #[test]
    fn the_samplers_of_opentelemetry_are_known() {
        let (never, always, half) = (Ratio::NEVER, Ratio::ALWAYS, "0.5".parse().unwrap());
        for (name, argument, sampled, not_sampled, root) in [
            ("", "0.5", always, never, never),
            ("always_on", "", always, always, always),
            ("always_off", "", never, never, never),
            ("traceidratio", "0.5", half, half, half),
            ("traceidratio", "", always, always, always),
            ("parentbased_always_on", "", always, never, always),
            ("parentbased_always_off", "", always, never, never),
            ("parentbased_traceidratio", "0.5", always, never, half),
        ] {
            let found = tracer(&[ENDPOINT, ("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", argument)]);
            assert_eq!(found.sampling, Sampling { sampled, not_sampled, root }, "{name}");
        }
        let flag = TraceSettings { trace_ratio: Some(half), ..SILENT };
        let found = read(&flag, &[ENDPOINT, ("OTEL_TRACES_SAMPLER", "always_on")]).unwrap().unwrap();
        assert_eq!(found.sampling, Sampling::with_ratio(half));
    }

    #[test]
    fn what_cannot_be_meant_is_an_error_that_names_the_variable_and_no_secret() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "secret:4317"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a:secret@b:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a b=secret"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ] {
            let variables = [(name, value), ENDPOINT];
            let error = read(&SILENT, &variables).unwrap_err();
            assert!(error.starts_with(&format!("{name}: give")) || error.contains("it has a login"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let ratio = [ENDPOINT, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")];
        assert!(read(&SILENT, &ratio).unwrap_err().starts_with("OTEL_TRACES_SAMPLER_ARG: give"));
        let header = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20c2VjcmV0, x-scope = a,");
        assert_eq!(tracer(&[ENDPOINT, header]).timeout, USUAL_TIMEOUT);
    }
}
