"""Sources of drivers: they run beside untrusted code, in confined processes, and are handed over as text."""
