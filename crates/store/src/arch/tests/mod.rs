//! What the store promises, tried on files in RAM, on faulty ones, and on the real file system.

mod budget;
mod crash;
mod damage;
mod limits;
mod real;
mod use_cases;
mod world;

use world::{World, body_of, key, matches, put};
