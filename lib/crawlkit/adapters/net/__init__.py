"""Requests to the web: names, addresses that may be connected to, connections, TLS, proxies."""
