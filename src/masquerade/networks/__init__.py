"""Networks: small ones of our own, and published ones rebuilt so that their weights can be read."""
