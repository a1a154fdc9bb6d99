//! Rules on step time and throughput as trainers and servers log them.
