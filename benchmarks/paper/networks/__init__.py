"""Feed-forward networks on six data sets (§5.2.2, Appendices E and I). See README.md."""
