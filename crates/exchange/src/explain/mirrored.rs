//! Requests at mirrors: the place at the registry, the rules by name and age, the promise, and the
//! stored response under the registry's URL.

use super::{ExplainSource, explain_use};
use crate::explain::{Explanation, Refusal};
use crate::mirrored::ExplainedMirror;
use http::StatusCode;
use shoal_semantics::status_fields::Reason;

/// Explains a request at a mirror.
pub(super) async fn explain(
    source: &ExplainSource<'_>,
    mut asked: ExplainedMirror,
    mut explanation: Explanation,
) -> Result<Explanation, String> {
    debug_assert!(explanation.mirror.is_none(), "a request is at one mirror");
    let key = explanation.site.as_ref().map(|site| site.key.clone());
    if let Some((status, reason)) = asked.refusal.take() {
        explanation.refusal = Some(Refusal { status, reason, ..refusal() });
        return Ok(Explanation { mirror: Some(asked.view), ..explanation });
    }
    if let Some(engine) = source.engine {
        asked.look(engine).await;
    }
    let Some(ask) = &asked.ask else {
        return Ok(Explanation { mirror: Some(asked.view), ..explanation });
    };
    let mut explanation = explain_use(source, ask, explanation, None).await?;
    // The mirror states its own freshness, and the registry's word plays no part.
    explanation.storing = None;
    if asked.view.too_young == Some(true) {
        explanation.reuse = None;
        let setting = key.map(|key| format!("{key}.minimum_age"));
        let reason = asked.view.verdict.clone();
        explanation.refusal =
            Some(Refusal { status: StatusCode::FORBIDDEN.as_u16(), reason, setting, ..refusal() });
    }
    Ok(Explanation { mirror: Some(asked.view), ..explanation })
}

fn refusal() -> Refusal {
    Refusal { detail: Some(Reason::Mirror.as_str().to_owned()), ..Refusal::default() }
}
