use tokio::task::JoinSet;

use crate::store::StoreError;

/// The newest of the answers, when most of those that were asked have answered, or all have answered or failed: so each
/// must be bounded. The others go on, and nobody waits for them. If nobody has answered, tells why after `what`.
pub(super) async fn newest_of_most<T: Send + 'static, Age: Ord>(
    mut asked: JoinSet<Result<T, StoreError>>,
    what: &str,
    age: impl Fn(&T) -> Age,
) -> Result<T, StoreError> {
    let most = asked.len() / 2 + 1;
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    while answers.len() < most
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
    answers.into_iter().max_by_key(age).ok_or_else(|| {
        let kind = match failures.iter().find(|error| matches!(error, StoreError::Refused(_))) {
            Some(_) => StoreError::Refused,
            None => StoreError::Unreachable,
        };
        let causes: Vec<String> = failures.into_iter().map(|failure| failure.cause().to_owned()).collect();
        kind(format!("{what}: {}", causes.join("; ")))
    })
}
