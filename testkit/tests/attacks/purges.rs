//! An origin purges its own responses alone.
