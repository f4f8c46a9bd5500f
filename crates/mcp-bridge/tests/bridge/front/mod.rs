//! The front, asked as HTTP asks it.

mod changes;
mod combined;
mod dedicated;
mod hearing;
mod legacy;
mod lifetime;
mod modern;
mod replay;
mod rules;
mod web;
