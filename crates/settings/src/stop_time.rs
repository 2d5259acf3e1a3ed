//! Time that a stop may take, beside the time that service managers give.

use crate::Settings;
use std::time::Duration;

impl Settings {
    /// Returns the longest time from the signal to the end of the process.
    pub fn stop_time(&self) -> Duration {
        let is_member = self.cluster.peer.is_some();
        let hand_over = if is_member { self.cluster.hand_over } else { Duration::ZERO };
        self.drain.lame_duck + hand_over + self.drain_timeout + CLOSING_TIME
    }

    /// Returns the warning of a stop that takes longer than the shipped files give; `None` if it
    /// takes less. It begins with the setting.
    pub fn stop_warning(&self) -> Option<String> {
        let (takes, given) = (self.stop_time().as_secs_f64(), GIVEN_TIME.as_secs());
        let parts = "drain.lame_duck, cluster.hand_over, drain_timeout and 10 s for the store";
        (takes > GIVEN_TIME.as_secs_f64()).then(|| {
            format!(
                "drain_timeout: a stop may take {takes:.0} s: {parts}. The node asks systemd for this time. \
                 Containers end it after {given} s, unless stop_grace_period or \
                 terminationGracePeriodSeconds gives more"
            )
        })
    }
}

/// Time in which the store is closed.
const CLOSING_TIME: Duration = Duration::from_secs(10);

/// Time that the unit, the compose file and the chart give: at least that of the default settings
/// in a cluster.
const GIVEN_TIME: Duration = Duration::from_secs(45);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number behind `name` in the file that has it.
    fn seconds(text: &str, name: &str) -> u64 {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name)).expect(name);
        let number = line.trim_end_matches('s').trim();
        number.parse().unwrap_or_else(|_| panic!("{name}: {line}"))
    }

    #[test]
    fn shipped_files_give_the_same_time() {
        let of_unit = seconds(include_str!("../../../contrib/shoal.service"), "TimeoutStopSec=");
        let compose = include_str!("../../../contrib/container/compose.yaml");
        let values = include_str!("../../../contrib/helm/shoal/values.yaml");
        let given = GIVEN_TIME.as_secs();
        assert_eq!(of_unit, given);
        assert_eq!(seconds(compose, "stop_grace_period:"), given);
        assert_eq!(seconds(values, "terminationGracePeriodSeconds:"), given);
        let install = include_str!("../../../docs/INSTALL.md");
        assert!(install.contains(&format!("--stop-timeout {given} ")));
    }

    #[test]
    fn defaults_stop_in_the_time_that_is_given() {
        let mut settings = Settings::default();
        assert_eq!(settings.stop_time(), Duration::from_secs(40));
        settings.cluster.peer = Some(([127, 0, 0, 1], 3131).into());
        assert_eq!(settings.stop_time(), Duration::from_secs(42));
        assert_eq!(settings.stop_warning(), None);
        settings.drain.lame_duck = Duration::from_secs(3);
        assert_eq!(settings.stop_warning(), None);
        settings.drain.lame_duck = Duration::from_secs(4);
        let warning = settings.stop_warning().expect("a second too much");
        assert!(warning.starts_with("drain_timeout: a stop may take 46 s"), "{warning}");
    }
}
