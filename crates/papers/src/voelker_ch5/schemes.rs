//! Tables 5.4 to 5.6, entry by entry, and their values with tiers.

use super::{LabError, paper};
use shoal_lab::figure::{Axis, Chart, Figure, Mark, Plot, Series, Shape, Unit};
use shoal_lab::model::wan::paper::{Entry, PrintedRegion, Quantity, Rates};
use shoal_lab::model::wan::scheme::{Performance, Scheme};
use shoal_lab::report::{Claim, Finding, Section, Table};

pub(super) fn section() -> Result<Section, LabError> {
    let model = paper(Rates::MID_SLOW)?;
    let mut findings = Vec::new();
    for printed in PrintedRegion::ALL {
        for entry in printed.entries {
            let performance = model.performance(entry.scheme, &printed.region())?;
            findings.push(finding(&printed, entry, &performance));
        }
    }
    Ok(Section {
        anchor: "schemes".into(),
        title: "Tables 5.4 to 5.6: three schemes in a city, a state, a coast".into(),
        question: "What does each scheme ask of a cache, and how long does a request take?".into(),
        findings,
        tables: vec![counted_once()?, subscripts()?],
        notes: NOTES.map(String::from).into(),
        ..Section::default()
    })
}

fn finding(printed: &PrintedRegion, entry: &Entry, performance: &Performance) -> Finding {
    let (row, unit, scale, found) = match entry.quantity {
        Quantity::Arrivals(level) => {
            let rank = if performance.arrivals_per_day.len() > 1 {
                format!(" r{}", level + 1)
            } else {
                String::new()
            };
            (format!("million requests a day{rank}"), Unit::Ratio, 1e-6, performance.arrivals_per_day[level])
        }
        Quantity::Latency => ("latency".into(), Unit::Seconds, 1.0, performance.latency_seconds),
        Quantity::Storage => ("GB a proxy".into(), Unit::Ratio, 1e-9, performance.storage_bytes),
    };
    let odd = if entry.contradicted { " (contradicted)" } else { "" };
    let what = format!("{}, {}, {row}{odd}", printed.name, entry.scheme.name());
    let key = format!("table-{}-{}-{row}", printed.table, entry.scheme.name()).replace(' ', "-");
    Finding::new(&key, &what, unit, Claim::Is(entry.value * scale)).found(&[Some(found * scale)])
}

fn counted_once() -> Result<Table, LabError> {
    let model = paper(Rates::MID_SLOW)?;
    let heading = [
        "",
        "requests counted",
        "latency as printed",
        "every request once",
        "requests a day as in Table 5.3",
        "every request once",
    ];
    let mut table = Table::new("The directory column, every request counted once", &heading);
    for printed in PrintedRegion::ALL {
        let region = printed.region();
        let [twice, once] = [Scheme::Directory, Scheme::DirectoryConsistent];
        let (twice, once) = (model.performance(twice, &region)?, model.performance(once, &region)?);
        let clients = printed.population;
        let own = model.hit_rate(clients / region.proxies())?;
        assert!(own <= model.hit_rate(clients)?, "more clients hit no less");
        let others = model.hit_rate(clients * (1.0 - 1.0 / region.proxies()))?;
        let counted = (1.0 - model.hit_rate(clients)?) + (1.0 - own) * others + own;
        let million = |rate: &Performance| format!("{:.1} million", rate.arrivals_per_day[0] / 1e6);
        let seconds = |found: &Performance| format!("{:.3} s", found.latency_seconds);
        let cells = [
            printed.name.into(),
            Unit::Share.shown(counted),
            seconds(&twice),
            seconds(&once),
            million(&twice),
            million(&once),
        ];
        table.rows.push(cells.to_vec());
    }
    Ok(table)
}

/// Returns the latencies by the subscripts as printed in Table 5.3 and as read.
fn subscripts() -> Result<Table, LabError> {
    let model = paper(Rates::MID_SLOW)?;
    let heading = [
        "",
        "hierarchy, printed result",
        "with H_N",
        "with H_{N_i}, i = k",
        "directory, printed result",
        "with L_l",
        "with L_i, i = 1",
    ];
    let mut table = Table::new("Two subscripts of Table 5.3: latency as read and as printed", &heading);
    for printed in PrintedRegion::ALL {
        let region = printed.region();
        let result = |scheme: Scheme| {
            let is_it = |entry: &&Entry| entry.scheme == scheme && entry.quantity == Quantity::Latency;
            printed.entries.iter().find(is_it).map_or(f64::NAN, |entry| entry.value)
        };
        let read = |scheme: Scheme| model.performance(scheme, &region).map(|found| found.latency_seconds);
        let (all, own) =
            (model.hit_rate(printed.population)?, model.hit_rate(printed.population / region.proxies())?);
        let (far, near) = (region.latency_seconds[0], region.latency_seconds[region.levels() - 1]);
        assert!(near <= far, "the lowest level is the nearest");
        let (hierarchy, directory) = (read(Scheme::Hierarchy)?, read(Scheme::Directory)?);
        let mut row = vec![printed.name.to_string()];
        let cells = [
            result(Scheme::Hierarchy),
            hierarchy,
            hierarchy + (all - own) * model.web().origin_seconds,
            result(Scheme::Directory),
            directory,
            directory + own * (far - near),
        ];
        row.extend(cells.iter().enumerate().map(|(at, seconds)| match at {
            0 | 3 => format!("{seconds} s"),
            _ => format!("{seconds:.3} s"),
        }));
        table.rows.push(row);
    }
    Ok(table)
}

/// "Obviously, this problem could be solved by designing hierarchical variants of these two
/// schemes" (5.3).
pub(super) fn tiers() -> Result<Section, LabError> {
    let model = paper(Rates::MID_SLOW)?;
    let mut series = Vec::new();
    let heading = [
        "scheme",
        "City",
        "State",
        "West Coast",
        "requests a day to the busiest cache, West Coast",
        "storage of a proxy, West Coast",
    ];
    let mut table = Table::new("Latency of all schemes, and what they ask for on the West Coast", &heading);
    for scheme in Scheme::ALL {
        let found: Result<Vec<Performance>, _> =
            PrintedRegion::ALL.iter().map(|printed| model.performance(scheme, &printed.region())).collect();
        let found = found?;
        assert_eq!(found.len(), PrintedRegion::ALL.len(), "a performance for each region");
        let points = PrintedRegion::ALL
            .iter()
            .zip(&found)
            .map(|(printed, found)| (printed.population, found.latency_seconds));
        series.push(Series { name: scheme.name().into(), shape: Shape::Dotted, points: points.collect() });
        let coast = &found[2];
        let busiest = coast.arrivals_per_day.iter().copied().fold(0.0, f64::max);
        let mut row = vec![scheme.name().to_string()];
        row.extend(found.iter().map(|found| format!("{:.3} s", found.latency_seconds)));
        row.extend([format!("{:.1} million", busiest / 1e6), format!("{:.0} GB", coast.storage_bytes / 1e9)]);
        table.rows.push(row);
    }
    let plot = Plot {
        x: Axis::log10("clients", Unit::Count),
        y: Axis::linear("mean latency", Unit::Seconds).over(0.6, 1.2),
        series,
        marks: vec![Mark::Level { y: 0.76, label: "0.76 s: what cannot be cached".into() }],
    };
    let alternative = "The flat schemes become slower from state to coast; the hierarchy and both tiered schemes go down to 0.78 seconds.";
    Ok(Section {
        anchor: "tiers".into(),
        title: "Future work: tiers of homes and of directories".into(),
        question:
            "Are the flat schemes' long distances mended by homes, or directories, for city, state and coast?"
                .into(),
        figures: vec![Figure::new("tiers", "Mean latency by region", alternative, Chart::Plot(plot))],
        tables: vec![table],
        notes: vec![TIERS_NOTE.into()],
        ..Section::default()
    })
}

const NOTES: [&str; 4] = [
    "23 of 33 entries come out to the printed digit. Nine of the other ten are the arrival rates into which a hit rate goes. They agree with each other on hit rates \
     of 50%, 54%, 56% and 57% for 50 thousand to 50 million clients; latencies and storage in the same columns need 39%, 55%, 59% and 60%, the model's own at the \
     stated rates of change. With the former the City's hierarchy would take 0.89 seconds instead of the printed 0.86, and a proxy with a directory store 12 TB instead of \
     9.5. No rates of Tables 5.1 and 5.2, with exponents from 0.6 to 1.3 and 80 million to 32 billion documents, give so flat a curve; the arrival rates come \
     from another computation than the rest.",
    "The tenth is the hashed City's storage, 1.5 TB a proxy: ten times the State's 150 GB, as if the City had the State's hit rate. With its own it is 1.36 TB, printed 1.4.",
    "Table 5.3 counts a request that a peer answers as (1 − H_own)·H_others, as if the two were independent. They are for the same document, and what may \
     not be cached misses in both: the City's column adds up to 117% of the requests. Counted once, H_all − H_own, the directory is faster than printed. The text's m = d^k \
     proxies should be d^(k−1): the City has ten, two levels and d = 10.",
    "Two subscripts of Table 5.3 are read otherwise than printed. The hierarchy's misses cost (1 − H_{N_i})·E(L) there, with no i to bind; with H_N, as in the other columns, the printed \
     latencies come out. The directory's own hits cost L_i; with L_l, which the text defines for it, the printed latencies come out, and with the distance between proxies they do not.",
];
const TIERS_NOTE: &str = "The hierarchy's latency is as Table 5.3 has it, without queueing. Tiers of homes have the same latency but for the lowest level, and no cache that sees more \
                          than the others: on the West Coast its busiest cache is asked some 200 times less than the hierarchy's top.";
