"""The host: networks divided among devices, and the requests for them."""
