//! What Shoal guarantees, one file a guarantee: the built binary between raw clients and a scripted
//! origin, counters expected as well as answers. Where an RFC is the judge, its sentence stands
//! beside the test.

mod architectures;
mod bad_clients;
mod bad_configuration;
mod bad_disks;
mod bad_origins;
mod bad_requests;
mod collapsed_requests;
mod crashes;
mod drain_and_reload;
mod failing_calls;
mod forward_mode;
mod freshness;
mod hanging_disk;
mod idle_connections;
mod interim_and_upgrade;
mod invalidation;
mod limits;
mod logs_and_metrics;
mod loops;
mod messages;
mod mixed_load;
mod nothing_blocks_a_core;
mod ranges;
mod reloads;
mod remote_calls;
mod replays_on_bad_disks;
mod reverse_mode;
mod rules;
mod short_way;
mod slow_clients;
mod smuggling;
mod stale_answers;
mod starts_on_bad_disks;
mod status_fields;
mod tls_and_http2;
mod transports_agree;
mod upstreams;
mod vary;
mod waiting_connections;
