"""Helpers on one machine: the sample site, its web server, Airflow on loopback."""
