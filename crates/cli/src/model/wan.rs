//! `shoal model wan`: the steady-state model of caches that cooperate in a wide area.

use crate::failure::Failure;
use crate::show::{print, size};
use serde_json::{Value, json};
use shoal_lab::model::wan::finite::Finite;
use shoal_lab::model::wan::paper::Rates;
use shoal_lab::model::wan::scheme::{Performance, Region, Scheme};
use shoal_lab::model::wan::{Change, Form, Model, SharedCache, WanError, Web};
use std::fmt::Write;

/// Hit rates of cooperating caches, by the number of their clients
///
/// N clients request n documents. The documents' popularity is Zipf-like. A document changes from
/// time to time, and popular documents change at another rate than others. A cache that keeps every
/// document hits if the document was requested since its last change. The model is that of Voelker
/// 2000, chapter 5. For each population the output has the hit rate of cacheable requests C_N and
/// of all requests H_N. It also has the mean latency, the bytes saved for each request, and the
/// storage. With --levels the output also compares the load on each cache for six ways to cooperate
/// (Table 5.3): a hierarchy, placement by hash, directories, and tiers of these.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelWanOptions {
    /// N: clients, one number or several
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',', default_values = ["500", "5e3", "50e3", "500e3", "5e6", "50e6"])]
    clients: Vec<f64>,
    /// The population at which this share of the cacheable requests hits, instead of --clients
    #[arg(long, value_name = "SHARE", conflicts_with = "clients")]
    reach: Option<f64>,
    /// α: the Zipf exponent of popularity, from 0 to 4
    #[arg(long, value_name = "ALPHA")]
    alpha: Option<f64>,
    /// n: documents
    #[arg(long, value_name = "N")]
    documents: Option<f64>,
    /// n_p: number of the most popular documents, which change at the popular documents' rate
    #[arg(long, value_name = "N")]
    popular: Option<f64>,
    /// λ: requests of one client a day
    #[arg(long, value_name = "N")]
    requests_per_day: Option<f64>,
    /// p_c: share of requests with a cacheable response
    #[arg(long, value_name = "SHARE")]
    cacheable: Option<f64>,
    /// 1/μ_p and 1/μ_u as in Table 5.1: slow, mid-slow, mid-fast or fast
    #[arg(long, value_name = "RATES", default_value = "mid-slow")]
    rates: String,
    /// 1/μ_p: mean days between changes of a popular document [default: by --rates]
    #[arg(long, value_name = "DAYS")]
    popular_days: Option<f64>,
    /// 1/μ_u: mean days between changes of another document [default: by --rates]
    #[arg(long, value_name = "DAYS")]
    unpopular_days: Option<f64>,
    /// Distribution of the intervals between changes: exponential, lognormal-between or
    /// lognormal-within documents, pareto-between or pareto-within
    #[arg(long, value_name = "LAW", default_value = "exponential")]
    change: String,
    /// Mean over median of lognormal intervals, or the shape of Pareto ones [default: 10, or 1.2]
    #[arg(long, value_name = "X")]
    tail: Option<f64>,
    /// E(S): mean size of a response, in bytes
    #[arg(long, value_name = "BYTES")]
    mean_bytes: Option<f64>,
    /// E(L): latency of an origin to the last byte, in milliseconds
    #[arg(long, value_name = "MS")]
    origin_ms: Option<f64>,
    /// lat_hit: latency of a hit, in milliseconds
    #[arg(long, value_name = "MS")]
    hit_ms: Option<f64>,
    /// Size of the cache, in bytes; the least recently used documents are evicted. Without it the
    /// cache keeps everything
    #[arg(long, value_name = "BYTES")]
    cache_bytes: Option<f64>,
    /// Compare ways to cooperate: L_1 to L_k in milliseconds, the latency from a cache of each
    /// level, the top level first and a client's own proxy last
    #[arg(long, value_name = "MS", num_args = 1.., value_delimiter = ',')]
    levels: Vec<f64>,
    /// d: caches below each cache of the level above
    #[arg(long, value_name = "N", default_value_t = 10)]
    fanout: u32,
    /// Sum over documents, or the dissertation's integral in its place
    #[arg(long, value_name = "FORM", value_parser = ["sum", "integral"], default_value = "sum")]
    form: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
The defaults are those of the University of Washington's trace (Table 5.1).

Examples:
  shoal model wan                                        what a larger population is worth (Figures 5.1 and 5.2)
  shoal model wan --rates slow --reach 0.9               how many clients it takes for 90% of the cacheable requests
  shoal model wan --clients 500e3 --levels 50,10         ten proxies of a city (Table 5.4)
  shoal model wan --clients 50e3 --cache-bytes 1e12      a proxy with a terabyte";

/// The model at one population.
struct ModelWanRow {
    clients: f64,
    shared: SharedCache,
    finite: Option<Finite>,
    schemes: Vec<(Scheme, Performance)>,
}

impl ModelWanOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let form = if self.form == "integral" { Form::Integral } else { Form::Sum };
        let model = Model::new(self.web()?, form).map_err(wrong)?;
        let clients = match self.reach {
            Some(share) => vec![self.population(&model, share)?],
            None => self.clients.clone(),
        };
        let rows: Vec<ModelWanRow> =
            clients.into_iter().map(|n| self.row(&model, n)).collect::<Result<_, _>>()?;
        print(&if self.json { json_of(&model, &rows) } else { table_of(&rows) })
    }

    fn population(&self, model: &Model, share: f64) -> Result<f64, Failure> {
        let none =
            || Failure::Runtime(format!("no population hits {}% of the cacheable requests", share * 100.0));
        model.population_for(share).map_err(wrong)?.ok_or_else(none)
    }

    fn row(&self, model: &Model, clients: f64) -> Result<ModelWanRow, Failure> {
        let finite = self.cache_bytes.map(|bytes| model.finite(clients, bytes).map_err(wrong)).transpose()?;
        let region = Region {
            population: clients,
            fanout: self.fanout,
            latency_seconds: self.levels.iter().map(|ms| ms / 1e3).collect(),
        };
        let schemes: &[Scheme] = if self.levels.is_empty() { &[] } else { &Scheme::ALL };
        let performance =
            |scheme: &Scheme| Ok((*scheme, model.performance(*scheme, &region).map_err(wrong)?));
        let shared = model.shared(clients).map_err(wrong)?;
        let hits = shared.cacheable.total();
        assert!((0.0..=1.0 + 1e-9).contains(&hits), "{hits} of the cacheable requests hit");
        Ok(ModelWanRow {
            clients,
            shared,
            finite,
            schemes: schemes.iter().map(performance).collect::<Result<_, Failure>>()?,
        })
    }

    fn web(&self) -> Result<Web, Failure> {
        let rates = Rates::named(&self.rates).ok_or_else(|| {
            Failure::Usage(format!("--rates: {:?} is none of slow, mid-slow, mid-fast, fast", self.rates))
        })?;
        let paper = Web::table_5_1(rates);
        let documents = whole("--documents", self.documents)?.unwrap_or(paper.documents);
        Ok(Web {
            alpha: self.alpha.unwrap_or(paper.alpha),
            documents,
            popular: whole("--popular", self.popular)?.unwrap_or(paper.popular.min(documents)),
            requests_per_day: self.requests_per_day.unwrap_or(paper.requests_per_day),
            cacheable: self.cacheable.unwrap_or(paper.cacheable),
            mean_bytes: self.mean_bytes.unwrap_or(paper.mean_bytes),
            origin_seconds: self.origin_ms.map_or(paper.origin_seconds, |ms| ms / 1e3),
            hit_seconds: self.hit_ms.map_or(paper.hit_seconds, |ms| ms / 1e3),
            popular_change: self.change_every(self.popular_days.unwrap_or(rates.popular_days))?,
            unpopular_change: self.change_every(self.unpopular_days.unwrap_or(rates.unpopular_days))?,
        })
    }

    fn change_every(&self, mean_days: f64) -> Result<Change, Failure> {
        Change::named(mean_days, &self.change, self.tail).ok_or_else(|| {
            Failure::Usage(format!("--change: {:?} is none of {}", self.change, Change::LAWS.join(", ")))
        })
    }
}

fn wrong(error: WanError) -> Failure {
    Failure::Usage(error.to_string())
}

/// Parses a whole number, also in a form such as 3.2e9.
fn whole(option: &str, number: Option<f64>) -> Result<Option<u64>, Failure> {
    match number {
        Some(number) if !(0.0..=1e15).contains(&number) || number.fract() != 0.0 => {
            Err(Failure::Usage(format!("{option}: {number} is no whole number up to 10^15")))
        }
        number => Ok(number.map(|number| number as u64)),
    }
}

fn table_of(rows: &[ModelWanRow]) -> String {
    let finite = rows.iter().any(|row| row.finite.is_some());
    let mut text = format!(
        "{:>14} {:>8} {:>8} {:>10} {:>13} {:>9} {:>9}",
        "clients", "C_N", "H_N", "latency", "bytes saved", "storage", "valid"
    );
    text += if finite { "  C_N of the cache   kept for\n" } else { "\n" };
    for row in rows {
        let shared = &row.shared;
        let _ = write!(
            text,
            "{:>14} {:>7.1}% {:>7.1}% {:>8.3} s {:>13.0} {:>9} {:>9}",
            row.clients,
            shared.cacheable.total() * 100.0,
            shared.hit_rate * 100.0,
            shared.latency_seconds,
            shared.saved_bytes,
            size(shared.storage_bytes as u64),
            size(shared.valid_bytes as u64),
        );
        if let Some(finite) = &row.finite {
            let kept = finite.characteristic_days;
            let kept = if kept.is_finite() { format!("{kept:.3} days") } else { "ever".into() };
            let _ = write!(text, "{:>17.1}% {kept:>11}", finite.cacheable.total() * 100.0);
        }
        text.push('\n');
        schemes(&mut text, row);
    }
    text
}

fn schemes(text: &mut String, row: &ModelWanRow) {
    if row.schemes.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "    {:<22} {:>10} {:>10}   requests a day to a cache, the top one first",
        "", "latency", "storage"
    );
    for (scheme, found) in &row.schemes {
        let arrivals: Vec<String> = found.arrivals_per_day.iter().map(|rate| millions(*rate)).collect();
        let _ = writeln!(
            text,
            "    {:<22} {:>8.3} s {:>10}   {}",
            scheme.name(),
            found.latency_seconds,
            size(found.storage_bytes as u64),
            arrivals.join("  ")
        );
    }
}

/// Formats a number as `29.5M`.
fn millions(number: f64) -> String {
    if number < 1e5 { format!("{number:.0}") } else { format!("{:.1}M", number / 1e6) }
}

fn json_of(model: &Model, rows: &[ModelWanRow]) -> String {
    let web = model.web();
    let told = json!({
        "alpha": web.alpha,
        "documents": web.documents,
        "popular": web.popular,
        "requests_per_day": web.requests_per_day,
        "cacheable": web.cacheable,
        "mean_bytes": web.mean_bytes,
        "origin_seconds": web.origin_seconds,
        "hit_seconds": web.hit_seconds,
        "popular_days": web.popular_change.mean_days,
        "unpopular_days": web.unpopular_change.mean_days,
        "rows": rows.iter().map(ModelWanRow::json).collect::<Vec<Value>>(),
    });
    let mut text = serde_json::to_string_pretty(&told).unwrap_or_default();
    text.push('\n');
    text
}

impl ModelWanRow {
    fn json(&self) -> Value {
        let schemes = self.schemes.iter().map(|(scheme, found)| {
            json!({
                "scheme": scheme.name(),
                "arrivals_per_day": found.arrivals_per_day,
                "latency_seconds": found.latency_seconds,
                "storage_bytes": found.storage_bytes,
            })
        });
        let finite = self.finite.map(|finite| {
            json!({
                "cacheable_hit_rate": finite.cacheable.total(),
                // JSON has no infinity: null means that nothing is evicted.
                "characteristic_days": finite.characteristic_days,
            })
        });
        json!({
            "clients": self.clients,
            "cacheable_hit_rate": self.shared.cacheable.total(),
            "popular_hits": self.shared.cacheable.popular,
            "unpopular_hits": self.shared.cacheable.unpopular,
            "hit_rate": self.shared.hit_rate,
            "latency_seconds": self.shared.latency_seconds,
            "saved_bytes": self.shared.saved_bytes,
            "storage_bytes": self.shared.storage_bytes,
            "valid_bytes": self.shared.valid_bytes,
            "finite": finite,
            "schemes": schemes.collect::<Vec<Value>>(),
        })
    }
}
