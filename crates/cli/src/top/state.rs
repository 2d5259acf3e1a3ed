//! State of the screen: the view, its order, and the last document. It changes by keys and answers
//! alone.

use serde::Deserialize;
use shoal_dashboard::documents::{NowDocument, ObjectsDocument, OriginsDocument, ReasonsDocument};

/// A view of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Rates, ratios, sources, latency, limits, sites
    #[default]
    Now,
    /// Reasons of misses, and of answers that are not stored
    Reasons,
    /// Servers: state, rates, errors, times
    Origins,
    /// URLs with most requests, bytes or time of an origin
    Objects,
}

/// Order of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowOrder {
    /// By requests.
    #[default]
    Requests,
    /// By bytes; origins by errors.
    Bytes,
    /// By time to answer; objects by time of their origins.
    Time,
}

/// Facts that every document begins with.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeFacts {
    pub node: String,
    pub version: String,
    pub uptime_s: u64,
    pub state: String,
    pub unix_ms: u64,
}

/// Document of a view.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    Now(Box<NowDocument>),
    Reasons(ReasonsDocument),
    Origins(OriginsDocument),
    Objects(ObjectsDocument),
}

/// Request for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub view: View,
    pub sorting: RowOrder,
    pub site: Option<String>,
}

/// Answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct TopAnswer {
    pub facts: NodeFacts,
    pub document: Document,
}

/// State of the screen.
#[derive(Clone, Debug)]
pub struct ScreenState {
    /// Address of the node.
    pub address: String,
    pub view: View,
    /// Order of each view's table.
    pub sortings: [RowOrder; View::ALL.len()],
    /// First row of the view's table that is shown.
    pub scroll: usize,
    pub is_paused: bool,
    pub shows_help: bool,
    /// Site of the numbers.
    pub site: Option<String>,
    /// Last answer, of the view or of an earlier one.
    pub answer: Option<TopAnswer>,
    /// Reason for which the last question had no answer.
    pub trouble: Option<String>,
}

impl View {
    /// Every view, in the order of their keys.
    pub const ALL: [Self; 4] = [Self::Now, Self::Reasons, Self::Origins, Self::Objects];

    /// Returns the title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Now => "Now",
            Self::Reasons => "Why not",
            Self::Origins => "Origins",
            Self::Objects => "Objects",
        }
    }

    /// Returns the page of the dashboard with the document.
    pub fn page(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Reasons => "reasons",
            Self::Origins => "origins",
            Self::Objects => "objects",
        }
    }
}

impl RowOrder {
    /// Returns the next order.
    pub fn next(self) -> Self {
        match self {
            Self::Requests => Self::Bytes,
            Self::Bytes => Self::Time,
            Self::Time => Self::Requests,
        }
    }
}

impl Document {
    /// Returns the view that shows the document.
    pub fn view(&self) -> View {
        match self {
            Self::Now(_) => View::Now,
            Self::Reasons(_) => View::Reasons,
            Self::Origins(_) => View::Origins,
            Self::Objects(_) => View::Objects,
        }
    }
}

impl ScreenState {
    /// Creates the state before the first answer.
    pub fn new(address: String, view: View, site: Option<String>) -> Self {
        Self {
            address,
            view,
            sortings: [RowOrder::default(); View::ALL.len()],
            scroll: 0,
            is_paused: false,
            shows_help: false,
            site,
            answer: None,
            trouble: None,
        }
    }

    /// Returns the order of the view's table.
    pub fn sorting(&self) -> RowOrder {
        self.sortings[self.view as usize]
    }

    /// Returns the question for the view's document.
    pub fn question(&self) -> Question {
        Question { view: self.view, sorting: self.sorting(), site: self.site.clone() }
    }

    /// Takes an answer. One that is late for another view is dropped.
    pub fn take(&mut self, answer: TopAnswer) {
        if answer.document.view() == self.view {
            self.answer = Some(answer);
            self.trouble = None;
        }
    }

    /// Returns the document of the view, once it has come.
    pub fn document(&self) -> Option<&Document> {
        let document = self.answer.as_ref().map(|answer| &answer.document);
        document.filter(|document| document.view() == self.view)
    }

    /// Goes to a view.
    pub fn go(&mut self, view: View) {
        if view != self.view {
            (self.view, self.scroll) = (view, 0);
        }
    }
}
