"""Servers: the networks of a host over HTTP and gRPC, with the Open Inference Protocol."""
