"""Partial results of a job, kept from run to run."""
