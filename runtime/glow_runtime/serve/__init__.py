"""Servers: the networks of a host over HTTP and gRPC, by the Open Inference Protocol."""
