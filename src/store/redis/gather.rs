use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::store::StoreError;

/// Waits until so many have answered, until all have answered or failed, or for so long. If nobody has answered, tells why
/// after `what` is not known.
pub(super) async fn gather<T: 'static>(
    mut asked: JoinSet<Result<T, StoreError>>,
    enough: usize,
    patience: Duration,
    what: &str,
) -> Result<Vec<T>, StoreError> {
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    let gathering = async {
        while let Some(asked) = asked.join_next().await {
            match asked {
                Ok(Ok(answer)) => answers.push(answer),
                Ok(Err(error)) => failures.push(error),
                // The task was aborted, and nobody does that.
                Err(_) => {}
            }
            if answers.len() == enough {
                break;
            }
        }
    };
    let in_time = timeout(patience, gathering).await;
    if !answers.is_empty() {
        return Ok(answers);
    }
    let kind = match failures.iter().find(|error| matches!(error, StoreError::Refused(_))) {
        Some(_) => StoreError::Refused,
        None => StoreError::Unreachable,
    };
    let mut causes: Vec<String> = failures.into_iter().map(StoreError::into_cause).collect();
    if in_time.is_err() {
        causes.push(format!("no answer within {patience:?}"));
    }
    Err(kind(format!("{what}: {}", causes.join("; "))))
}
