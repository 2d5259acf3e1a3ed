//! RFC 9111 as values: may it be stored, may it be reused, what must be asked.
