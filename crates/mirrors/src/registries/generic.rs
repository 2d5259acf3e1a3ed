//! Files by URL: every path is a file, and the origin's own freshness holds.

use crate::route::PromiseSource;
use crate::{Class, Fetch, Form, Mirror, Place, Promises, Question, Registry, Rewriter, Route};

/// The generic kind.
pub struct Generic;

impl Registry for Generic {
    fn route(&self, _: &Mirror, question: &Question<'_>) -> Route {
        let place = match question.query {
            Some(query) => Place::Below(format!("{}?{query}", question.path)),
            None => Place::Below(question.path.to_owned()),
        };
        match question.method {
            "GET" | "HEAD" => Route::Fetch(Fetch {
                place,
                class: Class::File(PromiseSource::Nothing),
                accept: None,
                form_asked: None,
            }),
            _ => Route::Refuse(405, "this mirror can only be read".to_owned()),
        }
    }

    fn rewriter(&self, _: &Mirror, _: Form) -> Option<Box<dyn Rewriter + Send>> {
        None
    }

    fn hides_slashes(&self) -> bool {
        true
    }

    fn promises(&self, _: &Mirror, _: Form, _: &Place) -> Option<Box<dyn Promises + Send>> {
        None
    }
}
