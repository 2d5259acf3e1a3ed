//! Future work named by the dissertation, by the model: heavy-tailed change, caches of finite size,
//! streams.

use super::{LabError, changed, curve, paper, spread};
use shoal_lab::figure::{Axis, Chart, Figure, Plot, Unit};
use shoal_lab::model::wan::paper::Rates;
use shoal_lab::model::wan::streaming::Streams;
use shoal_lab::model::wan::{Change, Form, Law, Model, Tail, Web};
use shoal_lab::report::{Section, Table};

/// "I modeled document rate of change conservatively using an exponential distribution, although
/// the data strongly suggests that it is heavy-tailed" (6.4).
pub(super) fn heavy_tails() -> Result<Section, LabError> {
    let clients = spread(1e3, 1e9, 49);
    let mut series = Vec::new();
    let mut table = Table::new(
        "C_N and the clients for 90%, rates of Table 5.2 (mean 14 and 186 days)",
        &["intervals", "50,000", "500,000", "5 million", "clients for 90%"],
    );
    for (name, popular, unpopular) in laws() {
        let model = changed(Rates::SLOW, |web| {
            (web.popular_change.law, web.unpopular_change.law) = (popular, unpopular)
        })?;
        series.push(curve(name, &clients, |n| Ok(model.cacheable_hit_rate(n)?.total()))?);
        let mut row = vec![name.to_string()];
        for population in [5e4, 5e5, 5e6] {
            row.push(Unit::Share.shown(model.cacheable_hit_rate(population)?.total()));
        }
        let reached = model.population_for(0.9)?;
        row.push(
            reached.map_or("never".into(), |clients| Unit::Count.shown((clients / 1000.0).round() * 1000.0)),
        );
        table.rows.push(row);
    }
    let plot = Plot {
        x: Axis::log10("clients", Unit::Count),
        y: Axis::share("cacheable requests that hit"),
        series,
        marks: Vec::new(),
    };
    let alternative =
        "Tails within documents lift the curve of exponential intervals, tails between documents flatten it.";
    Ok(Section {
        anchor: "heavy-tails".into(),
        title: "Future work: heavy-tailed rates of change".into(),
        question: "Is the exponential assumption conservative, as the text holds?".into(),
        figures: vec![Figure::new(
            "heavy-tails",
            "Hits by population for intervals of the same mean and different tails",
            alternative,
            Chart::Plot(plot),
        )],
        tables: vec![table],
        notes: vec![TAILS_NOTE.into()],
        ..Section::default()
    })
}

/// Returns the trace's medians, "< 1" taken as one day, or a Pareto tail.
fn laws() -> [(&'static str, Law, Law); 5] {
    let lognormal = |median_days| Tail::LogNormal { median_days };
    let pareto = Tail::Pareto { shape: 1.2 };
    [
        ("exponential", Law::Exponential, Law::Exponential),
        ("lognormal within", Law::Within(lognormal(1.0)), Law::Within(lognormal(85.0))),
        ("lognormal between", Law::Between(lognormal(1.0)), Law::Between(lognormal(85.0))),
        ("Pareto within", Law::Within(pareto), Law::Within(pareto)),
        ("Pareto between", Law::Between(pareto), Law::Between(pareto)),
    ]
}

/// "I contend that the storage needed to do this is not intractable" (5.2.1, footnote 1).
pub(super) fn finite() -> Result<Section, LabError> {
    let model = paper(Rates::MID_SLOW)?;
    let all = model.web().documents as f64 * model.web().cacheable * model.web().mean_bytes;
    let gigabytes = spread(0.1, all / 1e9, 40);
    let populations = [(5e3, "5,000"), (5e4, "50,000"), (5e5, "500,000"), (5e6, "5 million")];
    let each = |(clients, name): (f64, &str)| {
        curve(name, &gigabytes, |gb| Ok(model.finite(clients, gb * 1e9)?.cacheable.total()))
    };
    let plot = Plot {
        x: Axis::log10("size of the cache, in GB", Unit::Count),
        y: Axis::share("cacheable requests that hit"),
        series: populations.into_iter().map(each).collect::<Result<_, _>>()?,
        marks: Vec::new(),
    };
    let mut table = Table::new(
        "LRU caches",
        &["clients", "hits, 100 GB", "1 TB", "9 TB", "everything", "least size for 95% of that", "kept for"],
    );
    for (clients, name) in populations {
        table.rows.push(finite_row(&model, clients, name, all)?);
    }
    let alternative = "Each curve rises with the logarithm of the size and levels off; for fifty thousand clients near ten terabytes.";
    Ok(Section {
        anchor: "finite".into(),
        title: "Future work: caches of finite size".into(),
        question: "From which size on does capacity no longer matter?".into(),
        figures: vec![Figure::new(
            "finite",
            "Hits by the size of one LRU cache, mid slow rates",
            alternative,
            Chart::Plot(plot),
        )],
        tables: vec![table],
        notes: vec![FINITE_NOTE.into()],
        ..Section::default()
    })
}

fn finite_row(model: &Model, clients: f64, name: &str, all: f64) -> Result<Vec<String>, LabError> {
    let hits = |bytes: f64| -> Result<f64, LabError> { Ok(model.finite(clients, bytes)?.cacheable.total()) };
    let infinite = hits(all)?;
    let (mut low, mut high) = (1e6, all);
    while high / low > 1.01 {
        let middle = f64::sqrt(low * high);
        debug_assert!(low <= middle && middle <= high, "the search keeps its bounds");
        let enough = hits(middle)? >= 0.95 * infinite;
        if enough { high = middle } else { low = middle }
    }
    let mut row = vec![name.to_string()];
    for bytes in [1e11, 1e12, 9e12, all] {
        row.push(Unit::Share.shown(hits(bytes)?));
    }
    let days = model.finite(clients, high)?.characteristic_days;
    row.extend([format!("{:.2} TB", high / 1e12), format!("{days:.0} days")]);
    Ok(row)
}

/// "Their average size is orders of magnitude larger, so cooperative caching for storage efficiency
/// becomes more appealing" (5.4).
pub(super) fn streams() -> Result<Section, LabError> {
    let model = Model::new(media(), Form::Sum)?;
    let clients = spread(1e4, 1e8, 41);
    let saved = |name: &str, part: fn(&Streams) -> f64| {
        curve(name, &clients, |n| {
            let streams = model.streams(n, (n / CLIENTS_A_PROXY).max(1.0), TITLE_SECONDS)?;
            Ok(part(&streams) / streams.unicast)
        })
    };
    let plot = Plot {
        x: Axis::log10("clients", Unit::Count),
        y: Axis::share("of all streams watched"),
        series: vec![
            saved("each proxy for itself", |s| s.separate)?,
            saved("multicast", |s| s.multicast)?,
            saved("cooperating proxies", |s| s.cooperative)?,
        ],
        marks: Vec::new(),
    };
    let mut table = Table::new(
        "Ten, a hundred, a thousand proxies",
        &[
            "clients",
            "storage of a proxy, directory",
            "hashed",
            "streams at once, unicast",
            "each for itself",
            "cooperating",
            "multicast",
        ],
    );
    for clients in [5e5, 5e6, 5e7] {
        let streams = model.streams(clients, clients / CLIENTS_A_PROXY, TITLE_SECONDS)?;
        assert!(streams.separate <= streams.unicast, "caches add no streams");
        assert!(streams.multicast <= streams.unicast, "nor does multicast");
        let web = model.web();
        let storage = |hit_rate: f64| web.documents as f64 * hit_rate * web.mean_bytes;
        let row = [
            Unit::Count.shown(clients),
            format!("{:.1} TB", storage(model.hit_rate(CLIENTS_A_PROXY)?) / 1e12),
            format!("{:.2} TB", storage(model.hit_rate(clients)?) / (clients / CLIENTS_A_PROXY) / 1e12),
            Unit::Count.shown(streams.unicast),
            Unit::Count.shown(streams.separate),
            Unit::Count.shown(streams.cooperative),
            Unit::Count.shown(streams.multicast),
        ];
        table.rows.push(row.to_vec());
    }
    let alternative = "Behind caches a tenth of the streams cross, what may not be cached; multicast alone leaves nearly all, since few viewers watch the same title at once.";
    Ok(Section {
        anchor: "streams".into(),
        title: "Future work: streams".into(),
        question: "Where objects are a thousand times larger and last for minutes, do proxies cooperate for storage, and does multicast do better?".into(),
        figures: vec![Figure::new("streams", "What still crosses the wide area", alternative, Chart::Plot(plot))],
        tables: vec![table],
        notes: vec![STREAMS_NOTE.into()],
        ..Section::default()
    })
}

/// Returns assumed media titles, since the dissertation gives no numbers. The titles are a tenth of
/// a percent of the Web's documents, each a thousand times as large and hardly ever changed. One
/// request in a hundred and fifty starts a stream. Popularity is less steep, as later measurements
/// of streams found.
fn media() -> Web {
    let paper = Web::table_5_1(Rates::SLOW);
    let never = Change::every(3650.0);
    Web {
        alpha: 0.5,
        documents: paper.documents / 1000,
        popular: 0,
        requests_per_day: 4.0,
        cacheable: 0.9,
        mean_bytes: paper.mean_bytes * 1000.0,
        popular_change: never,
        unpopular_change: never,
        ..paper
    }
}

const TITLE_SECONDS: f64 = 480.0;
/// Clients of one proxy (section 5.3).
const CLIENTS_A_PROXY: f64 = 50e3;
const TAILS_NOTE: &str = "The text calls exponential intervals conservative. That holds where the intervals of each document vary more than exponential ones at the same mean. Where the documents' \
                          means differ, it is the other way round: a share of requests goes to documents that change all the time, and at the same mean there are the fewer hits the heavier the tail is. The trace's \
                          mean and median (Table 5.2) do not say which of both it is; a trace of origins would.";
const FINITE_NOTE: &str = "By the characteristic time of LRU (Che et al. 2002). Capacity does matter: with exponent 0.8 so many requests go to documents that are seldom asked for that a terabyte \
                           reaches little more than half of the hits. The footnote of 5.2.1 has all cacheable documents in a disk array of 9 TB; n, p_c and E(S) of Table 5.1 ask for 14.8 TB, \
                           though 9 TB do for the clients of one proxy. Changed documents that nobody asked for again still take room.";
const STREAMS_NOTE: &str = "Assumed: 3.2 million titles of 7.7 MB that play for eight minutes, popularity with exponent 0.5, four starts a client and day, 90% cacheable, 50,000 clients a proxy. A title that \
                            crosses for a cache is counted at its playing time. Cooperation then pays in storage, a tenth to a thousandth for a proxy, as the text expects, and hardly in streams. Multicast is \
                            patching: viewers join a running stream and fetch the beginning by themselves; with so many titles few are watched by two at once.";
