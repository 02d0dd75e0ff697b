use tokio::task::JoinSet;

use crate::store::StoreError;

/// Waits until so many have answered, or until all have answered or failed: so each must be bounded. The others go on, and
/// nobody waits for them. If nobody has answered, tells why after `what` is not known.
pub(super) async fn gather<T: Send + 'static>(
    mut asked: JoinSet<Result<T, StoreError>>,
    enough: usize,
    what: &str,
) -> Result<Vec<T>, StoreError> {
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    while answers.len() < enough
        && let Some(ended) = asked.join_next().await
    {
        match ended {
            Ok(Ok(answer)) => answers.push(answer),
            Ok(Err(error)) => failures.push(error),
            // It was aborted, and nobody does that.
            Err(_) => {}
        }
    }
    asked.detach_all();
    if !answers.is_empty() {
        return Ok(answers);
    }
    let kind = match failures.iter().find(|error| matches!(error, StoreError::Refused(_))) {
        Some(_) => StoreError::Refused,
        None => StoreError::Unreachable,
    };
    let causes: Vec<String> = failures.into_iter().map(StoreError::into_cause).collect();
    Err(kind(format!("{what}: {}", causes.join("; "))))
}
