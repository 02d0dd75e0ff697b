use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

/// A certificate should have been renewed when so much of its time is left, in seconds; or this part of it, where it lives
/// for days only.
const LEFT: i64 = 7 * 24 * 3600;
const LEFT_PART: i64 = 5;

/// When a certificate is good.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validity {
    from: ASN1Time,
    until: ASN1Time,
}

/// What there is to say of a certificate at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Good,
    NotYet,
    EndsSoon,
    Ended,
}

impl Validity {
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        let validity = certificate.validity();
        Ok(Self { from: validity.not_before, until: validity.not_after })
    }

    /// Its end, in seconds since the Unix epoch.
    pub(super) fn end(&self) -> i64 {
        self.until.timestamp()
    }

    /// At this time, in seconds since the Unix epoch.
    pub(super) fn condition(&self, now: i64) -> Condition {
        let (from, until) = (self.from.timestamp(), self.until.timestamp());
        let life = until.saturating_sub(from);
        if now > until {
            Condition::Ended
        } else if now < from {
            Condition::NotYet
        } else if until.saturating_sub(now) < LEFT.min(life / LEFT_PART) {
            Condition::EndsSoon
        } else {
            Condition::Good
        }
    }

    /// What follows from a condition, for people; `None` if nothing does.
    pub(super) fn advice(&self, condition: Condition) -> Option<String> {
        let (from, until) = (date(self.from), date(self.until));
        match condition {
            Condition::Good => None,
            Condition::NotYet => Some(format!(
                "it is good from {from} on, and clients refuse it until then: is this machine's clock right?"
            )),
            Condition::EndsSoon => Some(format!("it ends on {until}, and clients refuse it from then on: renew it")),
            Condition::Ended => Some(format!("it ended on {until}, and clients refuse it: put a new one there")),
        }
    }
}

fn date(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", time.hour(), time.minute())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validity(from: i64, until: i64) -> Validity {
        let time = |seconds| ASN1Time::from_timestamp(seconds).unwrap();
        Validity { from: time(from), until: time(until) }
    }

    #[test]
    fn what_there_is_to_say_depends_on_the_time() {
        const DAY: i64 = 24 * 3600;
        let quarter = validity(100 * DAY, 190 * DAY);
        // It lives for a day, and is renewed after half of it.
        let short = validity(100 * DAY, 101 * DAY);
        for (validity, now, condition) in [
            (quarter, 100 * DAY - 1, Condition::NotYet),
            (quarter, 100 * DAY, Condition::Good),
            (quarter, 183 * DAY, Condition::Good),
            (quarter, 183 * DAY + 1, Condition::EndsSoon),
            (quarter, 190 * DAY, Condition::EndsSoon),
            (quarter, 190 * DAY + 1, Condition::Ended),
            (short, 100 * DAY + DAY / 2, Condition::Good),
            (short, 101 * DAY - DAY / 5 + 1, Condition::EndsSoon),
        ] {
            assert_eq!(validity.condition(now), condition, "{validity:?} at {now}");
        }
    }

    #[test]
    fn it_is_told_with_its_date() {
        let validity = validity(1_577_836_800, 1_609_459_140);
        let told = |condition| validity.advice(condition).unwrap_or_default();
        assert!(told(Condition::NotYet).contains("from 2020-01-01 00:00 UTC on"));
        assert!(told(Condition::EndsSoon).contains("ends on 2020-12-31 23:59 UTC"));
        assert!(told(Condition::Ended).contains("ended on 2020-12-31 23:59 UTC"));
        assert_eq!(validity.advice(Condition::Good), None);
    }
}
