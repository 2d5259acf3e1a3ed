//! Nothing is reused for longer than its origin or its signature allows.
