//! The numbers that Kant and Won print.

/// One of the nine cases of Table 1.1, simulated and analytic. Four hit ratios of the analytic rows
/// and one simulated one did not survive in the copy at hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// λ: operations a second.
    pub throughput: f64,
    /// The file set, in megabytes.
    pub set_megabytes: f64,
    /// The cache, in megabytes.
    pub cache_megabytes: f64,
    /// The cache, as a share of the set.
    pub fraction: f64,
    /// The row marked S.
    pub simulated: PrintedRow,
    /// The row marked A.
    pub analytic: PrintedRow,
}

/// Values of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrintedRow {
    /// η_f.
    pub hit_ratio: Option<f64>,
    /// Thousands of transfers a second.
    pub kilo_transfers: f64,
    /// Megabytes a second.
    pub megabytes: f64,
    /// Operations a second that are left.
    pub throughput: f64,
}

const fn row(hit_ratio: Option<f64>, kilo_transfers: f64, megabytes: f64, throughput: f64) -> PrintedRow {
    PrintedRow { hit_ratio, kilo_transfers, megabytes, throughput }
}

const fn case(
    set: (f64, f64),
    cache_megabytes: f64,
    fraction: f64,
    simulated: PrintedRow,
    analytic: PrintedRow,
) -> Case {
    Case { throughput: set.0, set_megabytes: set.1, cache_megabytes, fraction, simulated, analytic }
}

const SMALL: (f64, f64) = (2500.0, 2688.0);
const MIDDLE: (f64, f64) = (10_000.0, 10_367.0);
const LARGE: (f64, f64) = (40_000.0, 41_084.0);

/// Table 1.1: comparison between simulation and analytic results.
pub const TABLE: [Case; 9] = [
    case(SMALL, 67.2, 0.025, row(Some(0.744), 1.54, 17.1, 2312.0), row(Some(0.765), 1.97, 20.2, 2229.0)),
    case(SMALL, 134.4, 0.05, row(Some(0.849), 1.06, 12.7, 2378.0), row(Some(0.857), 1.25, 13.9, 2324.0)),
    case(SMALL, 268.8, 0.1, row(Some(0.925), 0.69, 9.0, 2432.0), row(Some(0.925), 0.69, 8.5, 2401.0)),
    case(MIDDLE, 259.2, 0.025, row(Some(0.783), 5.25, 58.8, 9330.0), row(None, 6.53, 67.9, 9087.0)),
    case(MIDDLE, 518.3, 0.05, row(Some(0.870), 3.70, 44.6, 9551.0), row(Some(0.883), 4.15, 46.7, 9410.0)),
    case(MIDDLE, 1037.0, 0.1, row(Some(0.933), 2.41, 31.5, 9737.0), row(Some(0.938), 2.32, 28.6, 9669.0)),
    case(LARGE, 1027.0, 0.025, row(Some(0.810), 18.84, 213.0, 37_154.0), row(None, 22.14, 232.8, 36_865.0)),
    case(LARGE, 2054.0, 0.05, row(Some(0.885), 13.18, 158.7, 38_054.0), row(None, 14.09, 159.9, 37_987.0)),
    case(LARGE, 4108.0, 0.1, row(None, 8.42, 109.4, 39_097.0), row(None, 7.84, 97.5, 38_868.0)),
];
