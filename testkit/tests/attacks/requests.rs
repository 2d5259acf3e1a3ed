//! Requests that two readers would understand in two ways.
