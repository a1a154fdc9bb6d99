//! Chrome trace JSON in XProf's dialect, and PyTorch Kineto's.
