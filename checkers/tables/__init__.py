"""The same questions asked of Parquet tables of operations."""
