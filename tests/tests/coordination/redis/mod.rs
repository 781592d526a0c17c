//! All that needs a Redis: left out as a whole where there is none.

mod annotate;
mod budgets;
mod cold;
mod evidence;
mod faults;
mod fencing;
mod group;
mod jev_trouble;
mod lives;
mod members;
mod members_away;
mod replica;
mod sharing;
mod versions;
