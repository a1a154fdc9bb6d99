//! Rules on the host: reads, transfers, fallbacks, launches.
