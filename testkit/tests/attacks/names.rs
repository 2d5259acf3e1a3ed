//! Silent name servers stop nobody else.
