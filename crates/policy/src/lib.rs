//! Decisions about keeping: replacement and admission, without I/O.
