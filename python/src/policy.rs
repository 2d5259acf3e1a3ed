//! Replacement policies by themselves: an order among keys, of which the one worth least is given
//! up.

use crate::arrays::counts;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use shoal_policy::{Belady, BeladySize, Handle, NextUses, Replacement};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

/// The replacement policies by name, with where each was published. `belady` and `belady_size` know
/// the future and are given it.
#[pyfunction]
pub fn policies() -> BTreeMap<&'static str, &'static str> {
    let offline = [("belady", "Belady 1966"), ("belady_size", "Belady 1966, by size")];
    shoal_policy::ReplacementPolicy::<u64>::ALL
        .iter()
        .map(|policy| (policy.name, policy.source))
        .chain(offline)
        .collect()
}

/// A policy of a name; the offline ones need the objects of all requests to come.
pub fn made(name: &str, future: Option<&Bound<'_, PyAny>>) -> PyResult<Box<dyn Replacement<u64>>> {
    let is_offline = matches!(name, "belady" | "belady_size");
    match (is_offline, future, shoal_policy::ReplacementPolicy::<u64>::named(name)) {
        (true, Some(future), _) => {
            let future = NextUses::of(counts("future", future)?);
            Ok(if name == "belady" {
                Box::new(Belady::new(future))
            } else {
                Box::new(BeladySize::new(future))
            })
        }
        (true, None, _) => {
            Err(PyValueError::new_err(format!("{name} needs the future: the objects of all requests")))
        }
        (false, Some(_), _) => Err(PyValueError::new_err(format!("{name} knows no future"))),
        (false, None, Some(policy)) => Ok((policy.construct)()),
        (false, None, None) => {
            let known: Vec<&str> = policies().into_keys().collect();
            Err(PyValueError::new_err(format!(
                "there is no policy {name:?}; there are: {}",
                known.join(", ")
            )))
        }
    }
}

/// An order among keys, whole numbers, of which the one worth least is given up.
///
/// It has no capacity: evict until a newcomer fits, then insert it.
#[pyclass(frozen, module = "shoal")]
pub struct Policy {
    order: Mutex<Order>,
}

struct Order {
    policy: Box<dyn Replacement<u64>>,
    handles: HashMap<u64, Handle>,
}

#[pymethods]
impl Policy {
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        let order = Order { policy: made(name, None)?, handles: HashMap::new() };
        Ok(Self { order: Mutex::new(order) })
    }

    /// The name as published.
    #[getter]
    fn name(&self) -> &'static str {
        self.with(|order| order.policy.name())
    }

    /// Takes in a key of so much weight: bytes, or 1 to count objects.
    #[pyo3(signature = (key, weight = 1))]
    fn insert(&self, key: u64, weight: u64) -> PyResult<()> {
        self.with(|order| {
            if order.handles.contains_key(&key) {
                return Err(PyKeyError::new_err(format!("{key} is in already")));
            }
            let handle = order.policy.insert(key, weight);
            order.handles.insert(key, handle);
            Ok(())
        })
    }

    /// The key was asked for; False when it is not in.
    fn hit(&self, key: u64) -> bool {
        self.with(|order| {
            let handle = order.handles.get(&key).copied();
            handle.inspect(|handle| order.policy.hit(*handle)).is_some()
        })
    }

    /// Takes the key out for a reason that says nothing about its worth; False when it was not in.
    fn remove(&self, key: u64) -> bool {
        self.with(|order| {
            let handle = order.handles.remove(&key);
            handle.inspect(|handle| order.policy.remove(*handle)).is_some()
        })
    }

    /// Gives up what is worth least: its key and weight; None when nothing is in.
    fn evict(&self) -> Option<(u64, u64)> {
        self.with(|order| {
            let victim = order.policy.evict()?;
            order.handles.remove(&victim.key);
            Some((victim.key, victim.weight))
        })
    }

    /// The weight of all that is in.
    #[getter]
    fn weight(&self) -> u64 {
        self.with(|order| order.policy.weight())
    }

    fn __len__(&self) -> usize {
        self.with(|order| order.policy.len())
    }

    fn __contains__(&self, key: u64) -> bool {
        self.with(|order| order.handles.contains_key(&key))
    }
}

impl Policy {
    fn with<T>(&self, act: impl FnOnce(&mut Order) -> T) -> T {
        act(&mut self.order.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}
